// Package scenarios holds what every client does, over a small driver that each client fills in.
//
//	PROGRAM BOOTSTRAP SCENARIO PREFIX
//
// Prints one line of JSON for each check and exits 0; exits 1 with the reason on stderr.
package scenarios

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

const (
	firstTimestamp = 1_700_000_000_000
	compactWithin  = 60 * time.Second
	// ReadWithin bounds one reading of a partition.
	ReadWithin = 20 * time.Second
)

// Header is a name with a value that may be nil, which is not the same as empty.
type Header struct {
	Key   string
	Value []byte
}

// Record is a record to send or as it came back.
type Record struct {
	Partition int32
	Offset    int64
	Key       []byte
	Value     []byte
	// Timestamp is in milliseconds; 0 leaves it to the client.
	Timestamp int64
	Headers   []Header
}

// Driver is what a scenario asks of a client. Everything returns only when the broker has answered.
type Driver interface {
	Version() string
	Create(topic string, partitions int32, config map[string]string) error
	// Partitions is 0 when there is no such topic.
	Partitions(topic string) (int, error)
	Config(topic string) (map[string]string, error)
	Produce(topic string, records []Record, codec string, idempotent bool) error
	// Read returns what lies at offsets from start to before until.
	Read(topic string, partition int32, start, until int64) ([]Record, error)
	Bounds(topic string, partition int32) (int64, int64, error)
	// AtTime is -1 when every record is older.
	AtTime(topic string, partition int32, timestamp int64) (int64, error)
	DeleteRecords(topic string, partition int32, before int64) error
	Delete(topic string) error
}

// Main runs the scenario that the arguments name.
func Main(start func(bootstrap string) (Driver, error)) {
	arguments := append(os.Args[1:], "", "", "")
	bootstrap, scenario, prefix := arguments[0], arguments[1], arguments[2]
	driver, err := start(bootstrap)
	if err == nil {
		err = run(driver, scenario, prefix+"-"+scenario)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(driver Driver, scenario, topic string) error {
	switch scenario {
	case "version":
		say(map[string]string{"version": driver.Version()})
		return nil
	case "create":
		return create(driver, topic)
	case "from-offset":
		return fromOffset(driver, topic)
	case "by-time":
		return byTime(driver, topic)
	case "idempotent":
		return idempotent(driver, topic)
	case "compaction":
		return compaction(driver, topic)
	case "delete":
		return deletion(driver, topic)
	}
	if codec, found := strings.CutPrefix(scenario, "produce-"); found {
		return produce(driver, topic, codec)
	}
	return fmt.Errorf("no scenario %q", scenario)
}

func say(line map[string]string) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
}

func check[T comparable](name string, found, wanted T) error {
	if found != wanted {
		return fmt.Errorf("%s: found %v, wanted %v", name, found, wanted)
	}
	say(map[string]string{"check": name})
	return nil
}

// Timestamps lie in the past, where the default retention would delete them.
func keep() map[string]string { return map[string]string{"retention.ms": "-1"} }

// mixed makes sixty records over two partitions with every shape of key, value, header and timestamp.
func mixed() []Record {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	var records []Record
	for i := range 60 {
		record := Record{Partition: int32(i % 2), Timestamp: firstTimestamp + int64(i)*1000}
		if i%5 != 0 {
			record.Key = []byte(fmt.Sprintf("key-%d\x00\xff", i))
		}
		if i%7 != 3 {
			record.Value = append([]byte(fmt.Sprintf("value-%d-", i)), bytes.Repeat([]byte{byte(i * 37)}, i*13%300)...)
		}
		switch i % 3 {
		case 0:
			record.Headers = []Header{{"a", []byte("1")}, {"a", []byte("2")}, {"empty", []byte{}}, {"null", nil}}
		case 2:
			record.Headers = []Header{{"bytes", all}}
		}
		records = append(records, record)
	}
	return records
}

func numbered(count int) []Record {
	var records []Record
	for i := range count {
		records = append(records, Record{
			Key: []byte(fmt.Sprintf("k%d", i)), Value: []byte(fmt.Sprint(i)), Timestamp: firstTimestamp + int64(i)*1000,
		})
	}
	return records
}

// same tells nil and empty apart.
func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

func create(driver Driver, topic string) error {
	wanted := map[string]string{"retention.ms": "123456789", "cleanup.policy": "delete"}
	if err := driver.Create(topic, 3, wanted); err != nil {
		return err
	}
	partitions, err := driver.Partitions(topic)
	if err := errors.Join(err, check("partitions in metadata", partitions, 3)); err != nil {
		return err
	}
	config, err := driver.Config(topic)
	if err != nil {
		return err
	}
	for name, value := range wanted {
		if err := check(name, config[name], value); err != nil {
			return err
		}
	}
	err = driver.Create(topic, 3, nil)
	return check("creating it again is refused", err != nil && strings.Contains(strings.ToLower(err.Error()), "exist"), true)
}

func produce(driver Driver, topic, codec string) error {
	if err := driver.Create(topic, 2, keep()); err != nil {
		return err
	}
	records := mixed()
	if err := driver.Produce(topic, records, codec, false); err != nil {
		return err
	}
	for partition := range int32(2) {
		var wanted []Record
		for _, record := range records {
			if record.Partition == partition {
				wanted = append(wanted, record)
			}
		}
		found, err := driver.Read(topic, partition, 0, int64(len(wanted)))
		if err := errors.Join(err, check(fmt.Sprintf("partition %d count", partition), len(found), len(wanted))); err != nil {
			return err
		}
		for i, a := range found {
			b := wanted[i]
			equal := a.Offset == int64(i) && same(a.Key, b.Key) && same(a.Value, b.Value) &&
				a.Timestamp == b.Timestamp && len(a.Headers) == len(b.Headers)
			for j := 0; equal && j < len(a.Headers); j++ {
				equal = a.Headers[j].Key == b.Headers[j].Key && same(a.Headers[j].Value, b.Headers[j].Value)
			}
			if !equal {
				return fmt.Errorf("partition %d offset %d: found %#v, wanted %#v", partition, i, a, b)
			}
		}
		say(map[string]string{"check": fmt.Sprintf("partition %d byte for byte", partition)})
	}
	return nil
}

func fromOffset(driver Driver, topic string) error {
	if err := driver.Create(topic, 1, keep()); err != nil {
		return err
	}
	if err := driver.Produce(topic, numbered(100), "none", false); err != nil {
		return err
	}
	begin, end, err := driver.Bounds(topic, 0)
	if err := errors.Join(err, check("begin", begin, 0), check("end", end, 100)); err != nil {
		return err
	}
	for _, start := range []int64{37, 99} {
		if err := readRun(driver, topic, 0, start, 100); err != nil {
			return err
		}
	}
	return nil
}

// readRun reads numbered records and checks that none is missing, doubled or out of place.
func readRun(driver Driver, topic string, partition int32, start, until int64) error {
	found, err := driver.Read(topic, partition, start, until)
	if err != nil {
		return err
	}
	for i, record := range found {
		wanted := start + int64(i)
		if record.Offset != wanted || string(record.Value) != fmt.Sprint(wanted) {
			return fmt.Errorf("from offset %d: found %s at %d, wanted %d", start, record.Value, record.Offset, wanted)
		}
	}
	return check(fmt.Sprintf("from offset %d", start), int64(len(found)), until-start)
}

func byTime(driver Driver, topic string) error {
	if err := driver.Create(topic, 1, keep()); err != nil {
		return err
	}
	records := numbered(100)
	for i := 0; i < 100; i += 25 {
		if err := driver.Produce(topic, records[i:i+25], "none", false); err != nil {
			return err
		}
	}
	for _, ask := range [][2]int64{{0, 0}, {41_500, 42}, {42_000, 42}, {50_000, 50}, {99_000, 99}, {99_001, -1}} {
		offset, err := driver.AtTime(topic, 0, firstTimestamp+ask[0])
		if err := errors.Join(err, check(fmt.Sprintf("offset at +%d ms", ask[0]), offset, ask[1])); err != nil {
			return err
		}
	}
	return readRun(driver, topic, 0, 42, 100)
}

func idempotent(driver Driver, topic string) error {
	if err := driver.Create(topic, 3, nil); err != nil {
		return err
	}
	var records []Record
	for i := range 3000 {
		records = append(records, Record{Partition: int32(i % 3), Key: []byte("k"), Value: []byte(fmt.Sprint(i / 3))})
	}
	if err := driver.Produce(topic, records, "none", true); err != nil {
		return err
	}
	for partition := range int32(3) {
		begin, end, err := driver.Bounds(topic, partition)
		if err := errors.Join(err, check("begin", begin, 0), check("end", end, 1000)); err != nil {
			return err
		}
		if err := readRun(driver, topic, partition, 0, 1000); err != nil {
			return err
		}
	}
	return nil
}

func compaction(driver Driver, topic string) error {
	const keys = 10
	if err := driver.Create(topic, 1, map[string]string{
		"cleanup.policy": "compact", "segment.ms": "300", "segment.bytes": "1048576",
		"min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "100",
	}); err != nil {
		return err
	}
	for round := range 5 {
		var records []Record
		for version := range 4 {
			for key := range keys {
				records = append(records, Record{
					Key:   []byte(fmt.Sprintf("key-%d", key)),
					Value: []byte(fmt.Sprintf("round %d version %d", round, version)),
				})
			}
		}
		records = append(records, Record{Key: []byte("gone"), Value: []byte("here")})
		if err := driver.Produce(topic, records, "none", false); err != nil {
			return err
		}
	}
	if err := driver.Produce(topic, []Record{{Key: []byte("gone")}}, "none", false); err != nil {
		return err
	}
	deadline := time.Now().Add(compactWithin)
	for {
		left, err := compacted(driver, topic, keys)
		if err != nil {
			return err
		}
		if left == keys {
			say(map[string]string{"check": "one value for each key"})
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("after %v still %d values for %d keys", compactWithin, left, keys)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// compacted counts the values that are left and checks that no key lost its last one.
func compacted(driver Driver, topic string, keys int) (int, error) {
	// A record that comes after segment.ms closes the segment before it; only closed segments are compacted.
	if err := driver.Produce(topic, []Record{{Key: []byte("tick"), Value: []byte("tick")}}, "none", false); err != nil {
		return 0, err
	}
	begin, end, err := driver.Bounds(topic, 0)
	if err != nil {
		return 0, err
	}
	found, err := driver.Read(topic, 0, begin, end)
	if err != nil {
		return 0, err
	}
	left, latest, before := 0, map[string][]byte{}, int64(-1)
	for _, record := range found {
		if record.Offset <= before {
			return 0, errors.New("compaction changed the order")
		}
		before = record.Offset
		if string(record.Key) == "tick" {
			continue
		}
		if record.Value != nil {
			left++
		}
		latest[string(record.Key)] = record.Value
	}
	if latest["gone"] != nil {
		return 0, errors.New("the deleted key came back")
	}
	for key := range keys {
		if value := string(latest[fmt.Sprintf("key-%d", key)]); value != "round 4 version 3" {
			return 0, fmt.Errorf("the last value of key-%d is lost: %q", key, value)
		}
	}
	return left, nil
}

func deletion(driver Driver, topic string) error {
	if err := driver.Create(topic, 1, keep()); err != nil {
		return err
	}
	if err := driver.Produce(topic, numbered(10), "none", false); err != nil {
		return err
	}
	if err := driver.DeleteRecords(topic, 0, 5); err != nil {
		return err
	}
	begin, end, err := driver.Bounds(topic, 0)
	if err := errors.Join(err, check("begin after deleting records", begin, 5), check("end", end, 10)); err != nil {
		return err
	}
	if err := readRun(driver, topic, 0, 5, 10); err != nil {
		return err
	}
	if err := driver.Delete(topic); err != nil {
		return err
	}
	for deadline := time.Now().Add(15 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		partitions, err := driver.Partitions(topic)
		if err != nil {
			return err
		}
		if partitions == 0 {
			say(map[string]string{"check": "gone from metadata"})
			return nil
		}
		if time.Now().After(deadline) {
			return errors.New("the deleted topic stays in metadata")
		}
	}
}
