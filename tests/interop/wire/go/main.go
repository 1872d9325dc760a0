// Runs scenarios with the Go client of RocketMQ and prints one JSON line for each: scenario, ok, seconds, error.
//
//	wire namesrv=ADDR broker=ADDR run=NAME scenarios=a,b,c [accessKey=KEY secretKey=SECRET] [topics=made] [patience=SECONDS]
//
// With topics=made the caller has made the first topic of each scenario, RUN-SCENARIO-1.
// All of them run at the same time: most of a scenario is waiting. One that needs something done to the servers prints
// {"ask":"..."} and waits for a line on standard input.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/rlog"
)

type scenario struct {
	name string
	run  func(*stage) error
}

var scenarios = []scenario{
	{"transaction", transaction},
	{"retry_to_dead_letters", retryToDeadLetters},
	{"rebalance", rebalance},
	{"orderly", orderly},
	{"broadcast", broadcast},
	{"request_reply", requestReply},
	{"trace", trace},
	{"sql", sql},
	{"tags", tags},
	{"continues", continues},
	{"delayed", delayed},
	{"send_sync", sendSync},
	{"send_async", sendAsync},
	{"send_oneway", sendOneway},
	{"send_batch", sendBatch},
	{"send_compressed", sendCompressed},
	{"pull", pull},
	{"administer", administer},
	{"master_lost", masterLost},
}

var printing sync.Mutex

type line struct {
	Scenario string  `json:"scenario"`
	OK       bool    `json:"ok"`
	Seconds  float64 `json:"seconds"`
	Error    string  `json:"error,omitempty"`
}

func main() {
	arguments := map[string]string{}
	for _, word := range os.Args[1:] {
		name, value, _ := strings.Cut(word, "=")
		arguments[name] = value
	}
	if _, found := arguments["list"]; found {
		names := []string{}
		for _, one := range scenarios {
			names = append(names, one.name)
		}
		text, _ := json.Marshal(names)
		fmt.Println(string(text))
		return
	}
	if text, found := arguments["patience"]; found {
		seconds, err := strconv.Atoi(text)
		if err != nil {
			fmt.Fprintln(os.Stderr, "patience is a number of seconds, not", text)
			os.Exit(2)
		}
		patience = time.Duration(seconds) * time.Second
	}
	rlog.SetLogLevel("error")
	known := map[string]func(*stage) error{}
	for _, one := range scenarios {
		known[one.name] = one.run
	}
	var running sync.WaitGroup
	for _, name := range strings.Split(arguments["scenarios"], ",") {
		run, found := known[name]
		if !found {
			fmt.Fprintln(os.Stderr, "no scenario", name)
			os.Exit(2)
		}
		running.Add(1)
		go func() {
			defer running.Done()
			result := perform(name, run, arguments)
			text, _ := json.Marshal(result)
			printing.Lock()
			fmt.Println(string(text))
			printing.Unlock()
		}()
	}
	running.Wait()
}

// Have the caller do something to the servers; returns when it is done.
func ask(what string) error {
	text, _ := json.Marshal(map[string]string{"ask": what})
	printing.Lock()
	fmt.Println(string(text))
	printing.Unlock()
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil || strings.TrimSpace(answer) != "done" {
		return fmt.Errorf("asked for %s, was answered %q (%v)", what, answer, err)
	}
	return nil
}

func perform(name string, run func(*stage) error, arguments map[string]string) (result line) {
	began := time.Now()
	result = line{Scenario: name}
	place := newStage(name, arguments)
	defer func() {
		if panicked := recover(); panicked != nil {
			result.OK = false
			result.Error = fmt.Sprint("panic: ", panicked)
		}
		result.Seconds = float64(time.Since(began).Milliseconds()) / 1000
		place.close()
	}()
	if err := run(place); err != nil {
		result.Error = err.Error()
	} else {
		result.OK = true
	}
	return result
}
