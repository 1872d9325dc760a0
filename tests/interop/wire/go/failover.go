package main

import (
	"context"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// Few messages are kept by the client: what comes after the end of the master came from the slave.
const kept = 4

// The master of the queues ends for good: a running consumer reads the rest from the slave.
func masterLost(s *stage) error {
	topic, err := s.topic()
	if err != nil {
		return err
	}
	to, err := s.producer()
	if err != nil {
		return err
	}
	received, gate := &inbox{}, make(chan struct{})
	made, err := s.consumer(s.name(), consumer.WithPullThresholdForQueue(kept), consumer.WithPullBatchSize(kept))
	if err != nil {
		return err
	}
	isOpen := false
	take := func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		<-gate
		return received.take(ctx, messages...)
	}
	if err = made.Subscribe(topic, everything, take); err != nil {
		return err
	}
	defer func() {
		if !isOpen {
			close(gate)
		}
	}()
	if err = made.Start(); err != nil {
		return err
	}
	bodies, err := send(to, topic, "rest", 200)
	if err != nil {
		return err
	}
	if err = ask("lose_master"); err != nil {
		return err
	}
	isOpen = true
	close(gate)
	return await("the rest from the slave", func() bool {
		distinct := map[string]bool{}
		for _, body := range received.bodies() {
			distinct[body] = true
		}
		return len(distinct) == len(bodies)
	})
}
