// A member of a group with sarama.
//
// sarama commits by itself and reports only what went wrong, so this member prints no commits.
package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/IBM/sarama"

	"kohort/e2e/clients/member"
)

var assignors = map[string]func() sarama.BalanceStrategy{
	"range":      sarama.NewBalanceStrategyRange,
	"roundrobin": sarama.NewBalanceStrategyRoundRobin,
	"sticky":     sarama.NewBalanceStrategySticky,
}

type handler struct{ topic string }

func (h handler) Setup(session sarama.ConsumerGroupSession) error {
	if claims := session.Claims()[h.topic]; len(claims) > 0 {
		member.Say("assigned", member.Partitions(claims))
	}
	return nil
}

// Cleanup is called when no claim is worked on any more; sarama commits what is marked before it joins again.
func (h handler) Cleanup(session sarama.ConsumerGroupSession) error {
	if claims := session.Claims()[h.topic]; len(claims) > 0 {
		member.Say("revoked", member.Partitions(claims))
	}
	return nil
}

func (h handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			member.Say("record", message.Partition, message.Offset, string(message.Value))
			session.MarkMessage(message, "")
		case <-session.Context().Done():
			return nil
		}
	}
}

func main() {
	arguments := member.Read()
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{assignors[arguments.Assignor]()}
	config.Consumer.Group.Session.Timeout = arguments.Session
	config.Consumer.Group.Heartbeat.Interval = arguments.Heartbeat
	config.Consumer.Group.InstanceId = arguments.Instance
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Interval = 100 * time.Millisecond
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	config.Consumer.Return.Errors = true
	config.Metadata.Retry.Backoff = 50 * time.Millisecond
	config.Metadata.Retry.Max = 100
	group, err := sarama.NewConsumerGroup(strings.Split(arguments.Bootstrap, ","), arguments.Group, config)
	if err != nil {
		member.Fail(err)
	}
	go func() {
		for err := range group.Errors() {
			member.Say("trouble", err)
		}
	}()
	ctx, leave := context.WithCancel(context.Background())
	member.WhenTold(leave)
	for ctx.Err() == nil {
		err := group.Consume(ctx, []string{arguments.Topic}, handler{arguments.Topic})
		if err != nil && !errors.Is(err, context.Canceled) {
			member.Say("trouble", err)
			// The broker may be away; asking again at once would only heat the machine.
			time.Sleep(50 * time.Millisecond)
		}
	}
	if err := group.Close(); err != nil {
		member.Say("trouble", err)
	}
	member.Say("left")
}
