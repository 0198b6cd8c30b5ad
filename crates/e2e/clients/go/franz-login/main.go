// Logs in with franz-go: what it takes and prints is described in ../../python/login.py.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const records = 10

func setting(name string) string {
	return os.Getenv("E2E_" + name)
}

func security() ([]kgo.Opt, error) {
	var options []kgo.Opt
	protocol := setting("PROTOCOL")
	if strings.HasSuffix(protocol, "SSL") {
		config := &tls.Config{}
		if file := setting("CA"); file != "" {
			pem, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			config.RootCAs = x509.NewCertPool()
			if !config.RootCAs.AppendCertsFromPEM(pem) {
				return nil, errors.New("no certificate in E2E_CA")
			}
		}
		if file := setting("CERTIFICATE"); file != "" {
			shown, err := tls.LoadX509KeyPair(file, setting("KEY"))
			if err != nil {
				return nil, err
			}
			config.Certificates = []tls.Certificate{shown}
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	if strings.HasPrefix(protocol, "SASL") {
		user, password := setting("USER"), setting("PASSWORD")
		switch mechanism := setting("MECHANISM"); mechanism {
		case "PLAIN":
			options = append(options, kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism()))
		case "SCRAM-SHA-256":
			options = append(options, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism()))
		case "SCRAM-SHA-512":
			options = append(options, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism()))
		case "OAUTHBEARER":
			options = append(options, kgo.SASL(oauth.Auth{Token: setting("TOKEN")}.AsMechanism()))
		default:
			return nil, fmt.Errorf("no such mechanism: %q", mechanism)
		}
	}
	return options, nil
}

func run(bootstrap, topic string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Second)
	defer cancel()
	options, err := security()
	if err != nil {
		return err
	}
	options = append(options, kgo.SeedBrokers(strings.Split(bootstrap, ",")...))
	// Says why it cannot connect, instead of trying for as long as it may.
	probe, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer probe.Close()
	if err := probe.Ping(ctx); err != nil {
		return err
	}
	for number := range records {
		sent := &kgo.Record{Topic: topic, Value: []byte(fmt.Sprint(number))}
		if err := probe.ProduceSync(ctx, sent).FirstErr(); err != nil {
			return err
		}
	}
	group := fmt.Sprintf("%s-readers-%d", topic, time.Now().UnixNano())
	options = append(options, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic))
	options = append(options, kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	reader, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer reader.Close()
	for found := 0; found < records; {
		fetched := reader.PollFetches(ctx)
		if err := fetched.Err(); err != nil {
			return err
		}
		found += fetched.NumRecords()
	}
	return nil
}

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(`{"login": true}`)
}
