package main

import (
	"context"
	"fmt"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

var patience = 90 * time.Second

var instances atomic.Int64

// What one scenario works with: topics and groups of its own, clients that end with it.
type stage struct {
	scenario   string
	nameServer string
	broker     string
	run        string
	// Of producers and consumers; empty ones sign nothing.
	credentials   primitive.Credentials
	topicsAreMade bool
	names         int
	closers       []func() error
}

func newStage(scenario string, arguments map[string]string) *stage {
	return &stage{
		scenario: scenario, nameServer: arguments["namesrv"], broker: arguments["broker"], run: arguments["run"],
		credentials:   primitive.Credentials{AccessKey: arguments["accessKey"], SecretKey: arguments["secretKey"]},
		topicsAreMade: arguments["topics"] == "made",
	}
}

func (s *stage) name() string {
	s.names++
	return fmt.Sprintf("%s-%s-%d", s.run, s.scenario, s.names)
}

func (s *stage) resolver() primitive.NsResolver {
	return primitive.NewPassthroughResolver([]string{s.nameServer})
}

// Clients with one instance name share a connection; ours get one each.
func instance() string {
	return fmt.Sprintf("go-%d", instances.Add(1))
}

func (s *stage) close() {
	for i := len(s.closers) - 1; i >= 0; i-- {
		func() {
			// A client that never started cannot always be shut down; that is its own affair.
			defer func() { _ = recover() }()
			_ = s.closers[i]()
		}()
	}
}

// A new topic with four queues, known to the name server. Where requests are signed the caller has made it: the admin
// client signs none that makes a topic, nor its questions for a route.
func (s *stage) topic() (string, error) {
	topic := s.name()
	if s.topicsAreMade {
		return topic, nil
	}
	return topic, s.makeTopic(topic)
}

func (s *stage) makeTopic(topic string) error {
	client, err := admin.NewAdmin(admin.WithResolver(s.resolver()))
	if err != nil {
		return err
	}
	s.closers = append(s.closers, client.Close)
	err = client.CreateTopic(context.Background(), admin.WithTopicCreate(topic), admin.WithBrokerAddrCreate(s.broker),
		admin.WithReadQueueNums(4), admin.WithWriteQueueNums(4))
	if err != nil {
		return err
	}
	return await("a route to "+topic, func() bool {
		queues, err := client.FetchPublishMessageQueues(context.Background(), topic)
		return err == nil && len(queues) == 4
	})
}

func (s *stage) producer(options ...producer.Option) (rocketmq.Producer, error) {
	all := []producer.Option{
		producer.WithNsResolver(s.resolver()), producer.WithGroupName(s.name()), producer.WithInstanceName(instance()),
		producer.WithSendMsgTimeout(20 * time.Second), producer.WithRetry(2), producer.WithCredentials(s.credentials),
	}
	made, err := rocketmq.NewProducer(append(all, options...)...)
	if err != nil {
		return nil, err
	}
	if err = made.Start(); err != nil {
		return nil, err
	}
	s.closers = append(s.closers, made.Shutdown)
	return made, nil
}

// A push consumer that begins with the first message; to be subscribed and started by the caller.
func (s *stage) consumer(group string, options ...consumer.Option) (rocketmq.PushConsumer, error) {
	all := []consumer.Option{
		consumer.WithNsResolver(s.resolver()), consumer.WithGroupName(group), consumer.WithInstance(instance()),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset), consumer.WithConsumeGoroutineNums(4),
		consumer.WithCredentials(s.credentials),
	}
	made, err := rocketmq.NewPushConsumer(append(all, options...)...)
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, made.Shutdown)
	return made, nil
}

// A started consumer whose messages go to the inbox.
func (s *stage) listen(group, topic string, selector consumer.MessageSelector, inbox *inbox, options ...consumer.Option) (rocketmq.PushConsumer, error) {
	made, err := s.consumer(group, options...)
	if err != nil {
		return nil, err
	}
	if err = made.Subscribe(topic, selector, inbox.take); err != nil {
		return nil, err
	}
	return made, made.Start()
}

func send(to rocketmq.Producer, topic, word string, count int) ([]string, error) {
	bodies := []string{}
	for i := 0; i < count; i++ {
		body := fmt.Sprintf("%s %d", word, i)
		message := primitive.NewMessage(topic, []byte(body)).WithTag("tag").WithKeys([]string{fmt.Sprintf("key-%d", i)})
		result, err := to.SendSync(context.Background(), message)
		if err != nil {
			return nil, err
		}
		if result.Status != primitive.SendOK {
			return nil, fmt.Errorf("%s: status %v", body, result.Status)
		}
		bodies = append(bodies, body)
	}
	return bodies, nil
}

func await(what string, condition func() bool) error {
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("after %v still no %s", patience, what)
		}
	}
	return nil
}

// What a consumer was given, in the order of arrival.
type inbox struct {
	mutex    sync.Mutex
	messages []*primitive.MessageExt
	arrivals []time.Time
}

func (b *inbox) take(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for _, message := range messages {
		b.messages = append(b.messages, message)
		b.arrivals = append(b.arrivals, time.Now())
	}
	return consumer.ConsumeSuccess, nil
}

func (b *inbox) all() []*primitive.MessageExt {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return append([]*primitive.MessageExt{}, b.messages...)
}

func (b *inbox) bodies() []string {
	bodies := []string{}
	for _, message := range b.all() {
		bodies = append(bodies, string(message.Body))
	}
	sort.Strings(bodies)
	return bodies
}

// Waits for exactly these bodies, in any order, none twice.
func (b *inbox) await(expected []string) error {
	sorted := append([]string{}, expected...)
	sort.Strings(sorted)
	err := await(fmt.Sprintf("%d messages", len(expected)), func() bool { return len(b.all()) >= len(expected) })
	if found := b.bodies(); err != nil || fmt.Sprint(found) != fmt.Sprint(sorted) {
		return fmt.Errorf("expected %v, received %v (%v)", sorted, found, err)
	}
	return nil
}
