package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

func tags(s *stage) error {
	topic, err := s.topic()
	if err != nil {
		return err
	}
	received := &inbox{}
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: "TagA || TagC"}
	if _, err = s.listen(s.name(), topic, selector, received); err != nil {
		return err
	}
	to, err := s.producer()
	if err != nil {
		return err
	}
	wanted := []string{}
	for i := 0; i < 20; i++ {
		tag := "Tag" + string("ABCD"[i%4])
		body := fmt.Sprintf("%s %d", tag, i)
		if _, err := to.SendSync(context.Background(), primitive.NewMessage(topic, []byte(body)).WithTag(tag)); err != nil {
			return err
		}
		if i%2 == 0 {
			wanted = append(wanted, body)
		}
	}
	return received.await(wanted)
}

func sql(s *stage) error {
	topic, err := s.topic()
	if err != nil {
		return err
	}
	received := &inbox{}
	selector := consumer.MessageSelector{Type: consumer.SQL92, Expression: "a BETWEEN 3 AND 5 OR region = 'us'"}
	if _, err = s.listen(s.name(), topic, selector, received); err != nil {
		return err
	}
	to, err := s.producer()
	if err != nil {
		return err
	}
	for i := 0; i < 10; i++ {
		message := primitive.NewMessage(topic, []byte(fmt.Sprint(i)))
		message.WithProperty("a", fmt.Sprint(i))
		if i == 9 {
			message.WithProperty("region", "us")
		}
		if _, err := to.SendSync(context.Background(), message); err != nil {
			return err
		}
	}
	return received.await([]string{"3", "4", "5", "9"})
}

func retryToDeadLetters(s *stage) error {
	topic, err := s.topic()
	if err != nil {
		return err
	}
	group := s.name()
	made, err := s.consumer(group, consumer.WithMaxReconsumeTimes(1))
	if err != nil {
		return err
	}
	received := &inbox{}
	err = made.Subscribe(topic, everything, func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		_, _ = received.take(ctx, messages...)
		consuming, _ := primitive.GetConcurrentlyCtx(ctx)
		consuming.DelayLevelWhenNextConsume = 1
		return consumer.ConsumeRetryLater, nil
	})
	if err != nil {
		return err
	}
	if err = made.Start(); err != nil {
		return err
	}
	to, err := s.producer()
	if err != nil {
		return err
	}
	if _, err = send(to, topic, "bad", 1); err != nil {
		return err
	}
	if err = received.await([]string{"bad 0", "bad 0"}); err != nil {
		return err
	}
	for times, message := range received.all() {
		if int(message.ReconsumeTimes) != times || message.GetKeys() != "key-0" {
			return fmt.Errorf("try %d: %d times before, keys %q", times, message.ReconsumeTimes, message.GetKeys())
		}
	}
	dead := &inbox{}
	// The topic of dead letters comes into being with the first of them; a consumer cannot start before.
	err = await("topic of dead letters", func() bool {
		_, err := s.listen(s.name(), "%DLQ%"+group, everything, dead)
		return err == nil
	})
	if err != nil {
		return err
	}
	return dead.await([]string{"bad 0"})
}

func rebalance(s *stage) error {
	topic, err := s.topic()
	if err != nil {
		return err
	}
	group := s.name()
	one, two := &inbox{}, &inbox{}
	if _, err = s.listen(group, topic, everything, one); err != nil {
		return err
	}
	second, err := s.listen(group, topic, everything, two)
	if err != nil {
		return err
	}
	to, err := s.producer()
	if err != nil {
		return err
	}
	sent := []string{}
	// Rounds of messages over all queues, until both were given some of the same round.
	err = await("round that both consumers take part in", func() bool {
		before := [2]int{len(one.all()), len(two.all())}
		bodies, err := send(to, topic, fmt.Sprintf("round %d", len(sent)), 8)
		if err != nil {
			return false
		}
		sent = append(sent, bodies...)
		_ = await("the round", func() bool { return len(one.all())+len(two.all()) >= len(sent) })
		return len(one.all()) > before[0] && len(two.all()) > before[1]
	})
	if err != nil {
		return err
	}
	if err = second.Shutdown(); err != nil {
		return err
	}
	bodies, err := send(to, topic, "alone", 8)
	if err != nil {
		return err
	}
	sent = append(sent, bodies...)
	return await("all messages, the last ones at the first consumer", func() bool {
		found := map[string]bool{}
		for _, body := range append(one.bodies(), two.bodies()...) {
			found[body] = true
		}
		return len(found) == len(sent)
	})
}

func orderly(s *stage) error {
	topic, err := s.topic()
	if err != nil {
		return err
	}
	made, err := s.consumer(s.name(), consumer.WithConsumerOrder(true), consumer.WithSuspendCurrentQueueTimeMillis(100*time.Millisecond))
	if err != nil {
		return err
	}
	received := &inbox{}
	var mutex sync.Mutex
	refused := map[string]bool{}
	err = made.Subscribe(topic, everything, func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, message := range messages {
			mutex.Lock()
			again := strings.HasSuffix(string(message.Body), " 3") && !refused[string(message.Body)]
			refused[string(message.Body)] = true
			mutex.Unlock()
			if again {
				return consumer.SuspendCurrentQueueAMoment, nil
			}
			_, _ = received.take(ctx, message)
		}
		return consumer.ConsumeSuccess, nil
	})
	if err != nil {
		return err
	}
	if err = made.Start(); err != nil {
		return err
	}
	to, err := s.producer(producer.WithQueueSelector(producer.NewHashQueueSelector()))
	if err != nil {
		return err
	}
	for step := 0; step < 8; step++ {
		for order := 0; order < 3; order++ {
			message := primitive.NewMessage(topic, []byte(fmt.Sprintf("order %d %d", order, step)))
			message.WithShardingKey(fmt.Sprintf("order-%d", order))
			if _, err := to.SendSync(context.Background(), message); err != nil {
				return err
			}
		}
	}
	if err = await("24 messages", func() bool { return len(received.all()) >= 24 }); err != nil {
		return err
	}
	next := map[string]int{}
	for _, message := range received.all() {
		order, step, _ := strings.Cut(strings.TrimPrefix(string(message.Body), "order "), " ")
		if step != fmt.Sprint(next[order]) {
			return fmt.Errorf("order %s: step %s came when %d was due: %v", order, step, next[order], received.bodies())
		}
		next[order]++
	}
	return nil
}

func broadcast(s *stage) error {
	topic, err := s.topic()
	if err != nil {
		return err
	}
	group := s.name()
	inboxes := []*inbox{{}, {}}
	for _, one := range inboxes {
		if _, err = s.listen(group, topic, everything, one, consumer.WithConsumerModel(consumer.BroadCasting)); err != nil {
			return err
		}
	}
	to, err := s.producer()
	if err != nil {
		return err
	}
	bodies, err := send(to, topic, "to all", 10)
	if err != nil {
		return err
	}
	for _, one := range inboxes {
		if err = one.await(bodies); err != nil {
			return err
		}
	}
	return nil
}

func continues(s *stage) error {
	topic, err := s.topic()
	if err != nil {
		return err
	}
	group := s.name()
	to, err := s.producer()
	if err != nil {
		return err
	}
	bodies, err := send(to, topic, "first", 20)
	if err != nil {
		return err
	}
	before, after := &inbox{}, &inbox{}
	first, err := s.listen(group, topic, everything, before)
	if err != nil {
		return err
	}
	if err = before.await(bodies); err != nil {
		return err
	}
	if err = first.Shutdown(); err != nil {
		return err
	}
	if bodies, err = send(to, topic, "second", 8); err != nil {
		return err
	}
	if _, err = s.listen(group, topic, everything, after); err != nil {
		return err
	}
	return after.await(bodies)
}

func requestReply(s *stage) error {
	topic, err := s.topic()
	if err != nil {
		return err
	}
	answering, err := s.producer()
	if err != nil {
		return err
	}
	asking, err := s.producer()
	if err != nil {
		return err
	}
	made, err := s.consumer(s.name())
	if err != nil {
		return err
	}
	err = made.Subscribe(topic, everything, func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, message := range messages {
			reply, err := consumer.CreateReplyMessage(message, nil)
			if err == nil {
				// The client's function loses the body; 5.5 brokers refuse a reply without one.
				reply.Body = []byte("answer")
				_, err = answering.SendSync(ctx, reply)
			}
			if err != nil {
				return consumer.ConsumeRetryLater, err
			}
		}
		return consumer.ConsumeSuccess, nil
	})
	if err != nil {
		return err
	}
	if err = made.Start(); err != nil {
		return err
	}
	// The broker can reach the asking client only after its first heartbeat, a second after its first send.
	var failure error
	err = await("reply", func() bool {
		var reply *primitive.Message
		reply, failure = asking.Request(context.Background(), 5*time.Second, primitive.NewMessage(topic, []byte("question")))
		return failure == nil && reply != nil && string(reply.Body) == "answer"
	})
	if err != nil {
		return fmt.Errorf("%w: %v", err, failure)
	}
	return nil
}

func pull(s *stage) error {
	topic, err := s.topic()
	if err != nil {
		return err
	}
	to, err := s.producer()
	if err != nil {
		return err
	}
	bodies, err := send(to, topic, "pulled", 12)
	if err != nil {
		return err
	}
	made, err := rocketmq.NewPullConsumer(consumer.WithGroupName(s.name()), consumer.WithNsResolver(s.resolver()),
		consumer.WithInstance(instance()), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithCredentials(s.credentials))
	if err != nil {
		return err
	}
	if err = made.Subscribe(topic, everything); err != nil {
		return err
	}
	if err = made.Start(); err != nil {
		return err
	}
	s.closers = append(s.closers, made.Shutdown)
	received := &inbox{}
	err = await("all messages by polling", func() bool {
		request, err := made.Poll(context.Background(), time.Second)
		if err == nil {
			_, _ = received.take(context.Background(), request.GetMsgList()...)
			made.ACK(context.Background(), request, consumer.ConsumeSuccess)
		}
		return len(received.all()) >= len(bodies)
	})
	if err != nil {
		return err
	}
	return received.await(bodies)
}
