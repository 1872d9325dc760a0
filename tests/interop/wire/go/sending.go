package main

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

var everything = consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}

func sendSync(s *stage) error {
	topic, err := s.topic()
	if err != nil {
		return err
	}
	to, err := s.producer()
	if err != nil {
		return err
	}
	sent := map[string]*primitive.SendResult{}
	for i := 0; i < 20; i++ {
		message := primitive.NewMessage(topic, []byte(fmt.Sprintf("body %d", i)))
		message.WithTag("tag").WithKeys([]string{fmt.Sprintf("key-%d", i)}).WithProperty("number", fmt.Sprint(i))
		result, err := to.SendSync(context.Background(), message)
		if err != nil {
			return err
		}
		sent[fmt.Sprintf("body %d", i)] = result
	}
	received := &inbox{}
	if _, err = s.listen(s.name(), topic, everything, received); err != nil {
		return err
	}
	bodies := []string{}
	for body := range sent {
		bodies = append(bodies, body)
	}
	if err = received.await(bodies); err != nil {
		return err
	}
	for _, message := range received.all() {
		result := sent[string(message.Body)]
		if result.MsgID != message.MsgId || result.OffsetMsgID != message.OffsetMsgId {
			return fmt.Errorf("%s: sent as %s %s, received as %s %s", message.Body, result.MsgID, result.OffsetMsgID, message.MsgId, message.OffsetMsgId)
		}
		if result.QueueOffset != message.QueueOffset || result.MessageQueue.QueueId != message.Queue.QueueId {
			return fmt.Errorf("%s: sent to %v, received from %v", message.Body, result.MessageQueue, message.Queue)
		}
		if "body "+message.GetProperty("number") != string(message.Body) || message.GetTags() != "tag" {
			return fmt.Errorf("properties of %s: %v", message.Body, message.GetProperties())
		}
	}
	return nil
}

func sendAsync(s *stage) error {
	topic, err := s.topic()
	if err != nil {
		return err
	}
	to, err := s.producer()
	if err != nil {
		return err
	}
	var open sync.WaitGroup
	var mutex sync.Mutex
	failures := []error{}
	for i := 0; i < 50; i++ {
		open.Add(1)
		done := func(_ context.Context, _ *primitive.SendResult, err error) {
			mutex.Lock()
			defer mutex.Unlock()
			if err != nil {
				failures = append(failures, err)
			}
			open.Done()
		}
		if err := to.SendAsync(context.Background(), done, primitive.NewMessage(topic, []byte(fmt.Sprint(i)))); err != nil {
			return err
		}
	}
	open.Wait()
	if len(failures) > 0 {
		return fmt.Errorf("%d sends failed: %v", len(failures), failures[0])
	}
	received := &inbox{}
	if _, err = s.listen(s.name(), topic, everything, received); err != nil {
		return err
	}
	return received.await(numbers(50))
}

func numbers(count int) []string {
	all := []string{}
	for i := 0; i < count; i++ {
		all = append(all, fmt.Sprint(i))
	}
	return all
}

func sendOneway(s *stage) error {
	topic, err := s.topic()
	if err != nil {
		return err
	}
	to, err := s.producer()
	if err != nil {
		return err
	}
	for i := 0; i < 20; i++ {
		if err := to.SendOneWay(context.Background(), primitive.NewMessage(topic, []byte(fmt.Sprint(i)))); err != nil {
			return err
		}
	}
	received := &inbox{}
	if _, err = s.listen(s.name(), topic, everything, received); err != nil {
		return err
	}
	return received.await(numbers(20))
}

func sendBatch(s *stage) error {
	topic, err := s.topic()
	if err != nil {
		return err
	}
	to, err := s.producer()
	if err != nil {
		return err
	}
	batch := []*primitive.Message{}
	for i := 0; i < 16; i++ {
		message := primitive.NewMessage(topic, []byte(fmt.Sprint(i))).WithTag("tag")
		message.WithProperty("number", fmt.Sprint(i))
		batch = append(batch, message)
	}
	if _, err := to.SendSync(context.Background(), batch...); err != nil {
		return err
	}
	received := &inbox{}
	if _, err = s.listen(s.name(), topic, everything, received); err != nil {
		return err
	}
	if err = received.await(numbers(16)); err != nil {
		return err
	}
	for _, message := range received.all() {
		if message.GetProperty("number") != string(message.Body) || message.GetTags() != "tag" {
			return fmt.Errorf("properties of %s: %v", message.Body, message.GetProperties())
		}
	}
	return nil
}

func sendCompressed(s *stage) error {
	topic, err := s.topic()
	if err != nil {
		return err
	}
	to, err := s.producer(producer.WithCompressMsgBodyOverHowmuch(1024))
	if err != nil {
		return err
	}
	body := bytes.Repeat([]byte("the same again "), 2000)
	if _, err := to.SendSync(context.Background(), primitive.NewMessage(topic, body)); err != nil {
		return err
	}
	received := &inbox{}
	if _, err = s.listen(s.name(), topic, everything, received); err != nil {
		return err
	}
	if err = received.await([]string{string(body)}); err != nil {
		return fmt.Errorf("body came back different: %d bytes", len(fmt.Sprint(received.bodies())))
	}
	if size := received.all()[0].StoreSize; size > 4000 {
		return fmt.Errorf("stored in %d bytes: not compressed", size)
	}
	return nil
}

func delayed(s *stage) error {
	topic, err := s.topic()
	if err != nil {
		return err
	}
	received := &inbox{}
	if _, err = s.listen(s.name(), topic, everything, received); err != nil {
		return err
	}
	to, err := s.producer()
	if err != nil {
		return err
	}
	least := map[string]time.Duration{"level 1": time.Second, "level 2": 5 * time.Second}
	began := map[string]time.Time{}
	for level := 1; level <= 2; level++ {
		body := fmt.Sprintf("level %d", level)
		began[body] = time.Now()
		message := primitive.NewMessage(topic, []byte(body)).WithDelayTimeLevel(level)
		if _, err := to.SendSync(context.Background(), message); err != nil {
			return err
		}
	}
	if err = received.await([]string{"level 1", "level 2"}); err != nil {
		return err
	}
	for i, message := range received.all() {
		body := string(message.Body)
		if waited := received.arrivals[i].Sub(began[body]); waited < least[body] {
			return fmt.Errorf("%s came after %v", body, waited)
		}
	}
	return nil
}

type listener struct {
	mutex  sync.Mutex
	checks map[string]int
}

func (l *listener) ExecuteLocalTransaction(message *primitive.Message) primitive.LocalTransactionState {
	switch string(message.Body) {
	case "commit":
		return primitive.CommitMessageState
	case "rollback":
		return primitive.RollbackMessageState
	}
	return primitive.UnknowState
}

func (l *listener) CheckLocalTransaction(message *primitive.MessageExt) primitive.LocalTransactionState {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.checks[string(message.Body)]++
	if string(message.Body) == "check rollback" {
		return primitive.RollbackMessageState
	}
	return primitive.CommitMessageState
}

func transaction(s *stage) error {
	topic, err := s.topic()
	if err != nil {
		return err
	}
	received := &inbox{}
	if _, err = s.listen(s.name(), topic, everything, received); err != nil {
		return err
	}
	decisions := &listener{checks: map[string]int{}}
	to, err := producer.NewTransactionProducer(decisions, producer.WithNsResolver(s.resolver()),
		producer.WithGroupName(s.name()), producer.WithInstanceName(instance()), producer.WithSendMsgTimeout(20*time.Second),
		producer.WithCredentials(s.credentials))
	if err != nil {
		return err
	}
	if err = to.Start(); err != nil {
		return err
	}
	s.closers = append(s.closers, to.Shutdown)
	for _, body := range []string{"rollback", "check rollback", "commit", "check commit"} {
		result, err := to.SendMessageInTransaction(context.Background(), primitive.NewMessage(topic, []byte(body)))
		if err != nil {
			return err
		}
		if result.Status != primitive.SendOK {
			return fmt.Errorf("%s: status %v", body, result.Status)
		}
	}
	if err = await("checks of both open transactions", func() bool {
		decisions.mutex.Lock()
		defer decisions.mutex.Unlock()
		return decisions.checks["check commit"] > 0 && decisions.checks["check rollback"] > 0
	}); err != nil {
		return err
	}
	return received.await([]string{"commit", "check commit"})
}

func trace(s *stage) error {
	topic, err := s.topic()
	if err != nil {
		return err
	}
	tracing := &primitive.TraceConfig{
		Access: primitive.Local, Resolver: s.resolver(), TraceTopic: "RMQ_SYS_TRACE_TOPIC", Credentials: s.credentials,
	}
	to, err := s.producer(producer.WithTrace(tracing))
	if err != nil {
		return err
	}
	result, err := to.SendSync(context.Background(), primitive.NewMessage(topic, []byte("traced")))
	if err != nil {
		return err
	}
	received := &inbox{}
	if _, err = s.listen(s.name(), "RMQ_SYS_TRACE_TOPIC", everything, received); err != nil {
		return err
	}
	return await("trace of "+result.MsgID, func() bool {
		for _, message := range received.all() {
			if bytes.Contains(message.Body, []byte(result.MsgID)) && bytes.Contains(message.Body, []byte("Pub")) {
				return true
			}
		}
		return false
	})
}

func administer(s *stage) error {
	topic, err := s.topic()
	if err != nil {
		return err
	}
	client, err := admin.NewAdmin(admin.WithResolver(s.resolver()))
	if err != nil {
		return err
	}
	s.closers = append(s.closers, client.Close)
	listed := func() bool {
		topics, err := client.FetchAllTopicList(context.Background())
		if err != nil {
			return false
		}
		for _, one := range topics.TopicList {
			if one == topic {
				return true
			}
		}
		return false
	}
	if !listed() {
		return fmt.Errorf("%s is not in the list of topics", topic)
	}
	groups, err := client.GetAllSubscriptionGroup(context.Background(), s.broker, 10*time.Second)
	if err != nil {
		return err
	}
	if _, found := groups.SubscriptionGroupTable["TOOLS_CONSUMER"]; !found {
		return fmt.Errorf("no TOOLS_CONSUMER among %d groups", len(groups.SubscriptionGroupTable))
	}
	err = client.DeleteTopic(context.Background(), admin.WithTopicDelete(topic), admin.WithBrokerAddrDelete(s.broker),
		admin.WithNameSrvAddr([]string{s.nameServer}))
	if err != nil {
		return err
	}
	return await("end of "+topic, func() bool { return !listed() })
}
