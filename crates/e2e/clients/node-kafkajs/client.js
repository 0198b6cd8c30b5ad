// The scenarios with kafkajs.
//
//     node client.js BOOTSTRAP SCENARIO PREFIX
//
// Prints one line of JSON for each check and exits 0; exits 1 with the reason on stderr. What kafkajs itself cannot
// do is printed as {"skipped": what, "reason": why}.
//
// kafkajs consumes only as a member of a group, so each reading is a group of its own with one member.
'use strict'

const assert = require('node:assert/strict')
const { setTimeout: pause } = require('node:timers/promises')

const { Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, logLevel } = require('kafkajs')
const snappy = require('kafkajs-snappy')
const lz4 = require('lz4-napi')
const zstd = require('@bokuweb/zstd-wasm')

CompressionCodecs[CompressionTypes.Snappy] = snappy
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: encoder => lz4.compressFrame(encoder.buffer),
  decompress: buffer => lz4.decompressFrame(buffer),
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async encoder => Buffer.from(zstd.compress(encoder.buffer, 3)),
  decompress: async buffer => Buffer.from(zstd.decompress(buffer)),
})
const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}

const FIRST_TIMESTAMP = 1_700_000_000_000
// Timestamps lie in the past, where the default retention would delete them.
const KEEP = { 'retention.ms': '-1' }
const READ_WITHIN_MS = 20_000
const COMPACT_WITHIN_MS = 60_000

const say = line => console.log(JSON.stringify(line))
const check = (name, found, wanted) => {
  assert.deepEqual(found, wanted, `${name}: found ${found}, wanted ${wanted}`)
  say({ check: name })
}

class Driver {
  constructor(bootstrap) {
    this.kafka = new Kafka({
      brokers: bootstrap.split(","),
      logLevel: logLevel.NOTHING,
      retry: { initialRetryTime: 50, retries: 8 },
    })
    this.admin = this.kafka.admin()
    this.readings = 0
  }

  async connect() {
    await this.admin.connect()
  }

  async close() {
    await this.admin.disconnect()
  }

  async create(topic, numPartitions, config) {
    const configEntries = Object.entries(config).map(([name, value]) => ({ name, value }))
    const made = await this.admin.createTopics({
      waitForLeaders: true,
      topics: [{ topic, numPartitions, replicationFactor: 1, configEntries }],
    })
    if (!made) throw new Error(`topic ${topic} exists`)
  }

  async partitions(topic) {
    if (!(await this.admin.listTopics()).includes(topic)) return null
    const { topics } = await this.admin.fetchTopicMetadata({ topics: [topic] })
    return topics[0].partitions.length
  }

  async config(topic) {
    const { resources } = await this.admin.describeConfigs({
      resources: [{ type: ConfigResourceTypes.TOPIC, name: topic }],
    })
    return Object.fromEntries(resources[0].configEntries.map(entry => [entry.configName, entry.configValue]))
  }

  async produce(topic, records, { codec = 'none', idempotent = false } = {}) {
    const producer = this.kafka.producer({
      createPartitioner: () => ({ message }) => message.partition,
      idempotent,
      maxInFlightRequests: 1,
      allowAutoTopicCreation: false,
    })
    await producer.connect()
    try {
      for (let i = 0; i < records.length; i += 500) {
        const messages = records.slice(i, i + 500)
        await producer.send({ topic, acks: -1, compression: CODECS[codec], messages })
      }
    } finally {
      await producer.disconnect()
    }
  }

  async read(topic, partition, start, until) {
    const found = []
    if (start >= until) return found
    const groupId = `${topic}-reading-${++this.readings}`
    const consumer = this.kafka.consumer({ groupId, maxWaitTimeInMs: 100, allowAutoTopicCreation: false })
    await consumer.connect()
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    try {
      await new Promise((resolve, reject) => {
        setTimeout(() => reject(new Error(`read ${found.length} records of ${start} to ${until}`)), READ_WITHIN_MS)
        consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
        const eachBatch = async ({ batch }) => {
          if (batch.partition !== partition) return
          for (const message of batch.messages) {
            const offset = Number(message.offset)
            // Where it begins is told it only once it runs, so it may have fetched from the beginning before.
            if (offset >= start && offset < until) found.push({ ...message, offset })
            if (offset >= start) start = offset + 1
          }
          if (start >= until) resolve()
        }
        consumer.run({ autoCommit: false, eachBatch }).catch(reject)
        consumer.seek({ topic, partition, offset: String(start) })
      })
    } finally {
      await consumer.disconnect()
    }
    return found
  }

  async bounds(topic, partition) {
    const offsets = await this.admin.fetchTopicOffsets(topic)
    const { low, high } = offsets.find(found => found.partition === partition)
    return [Number(low), Number(high)]
  }

  /** kafkajs gives the end where every record is older. */
  async atTime(topic, timestamp) {
    const [found] = await this.admin.fetchTopicOffsetsByTimestamp(topic, timestamp)
    return Number(found.offset)
  }
}

function mixedRecords() {
  say({ skipped: 'null header', reason: 'kafkajs throws on a header without a value' })
  return Array.from({ length: 60 }, (_, i) => {
    let headers = {}
    if (i % 3 === 0) headers = { a: [Buffer.from('1'), Buffer.from('2')], empty: Buffer.alloc(0) }
    if (i % 3 === 2) headers = { bytes: Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)) }
    const key = Buffer.concat([Buffer.from(`key-${i}`), Buffer.from([0, 255])])
    const value = Buffer.concat([Buffer.from(`value-${i}-`), Buffer.alloc((i * 13) % 300, (i * 37) % 256)])
    return {
      partition: i % 2,
      key: i % 5 === 0 ? null : key,
      value: i % 7 === 3 ? null : value,
      timestamp: String(FIRST_TIMESTAMP + i * 1000),
      headers,
    }
  })
}

const numbered = count =>
  Array.from({ length: count }, (_, i) => ({
    partition: 0,
    key: `k${i}`,
    value: String(i),
    timestamp: String(FIRST_TIMESTAMP + i * 1000),
  }))

const range = (start, until) => Array.from({ length: until - start }, (_, i) => start + i)
const values = records => records.map(record => Number(record.value.toString()))

const SCENARIOS = {
  async create(driver, topic) {
    await driver.create(topic, 3, { 'retention.ms': '123456789', 'cleanup.policy': 'delete' })
    check('partitions in metadata', await driver.partitions(topic), 3)
    const config = await driver.config(topic)
    check('retention.ms', config['retention.ms'], '123456789')
    check('cleanup.policy', config['cleanup.policy'], 'delete')
    await assert.rejects(driver.create(topic, 3, {}), /exist/)
    say({ check: 'creating it again is refused' })
  },

  async produce(driver, topic, codec) {
    await driver.create(topic, 2, KEEP)
    const records = mixedRecords()
    await driver.produce(topic, records, { codec })
    for (const partition of [0, 1]) {
      const wanted = records.filter(record => record.partition === partition)
      const found = await driver.read(topic, partition, 0, wanted.length)
      check(`partition ${partition} count`, found.length, wanted.length)
      found.forEach((record, offset) => {
        const { key, value, timestamp, headers } = record
        const expected = wanted[offset]
        assert.deepEqual(
          { offset: record.offset, key, value, timestamp, headers: { ...headers } },
          { offset, key: expected.key, value: expected.value, timestamp: expected.timestamp, headers: expected.headers }
        )
      })
      say({ check: `partition ${partition} byte for byte` })
    }
  },

  async 'from-offset'(driver, topic) {
    await driver.create(topic, 1, KEEP)
    await driver.produce(topic, numbered(100))
    check('bounds', await driver.bounds(topic, 0), [0, 100])
    for (const start of [37, 99]) {
      const found = await driver.read(topic, 0, start, 100)
      check(`from offset ${start}`, found.map(record => record.offset), range(start, 100))
      assert.deepEqual(values(found), range(start, 100))
    }
  },

  async 'by-time'(driver, topic) {
    await driver.create(topic, 1, KEEP)
    const records = numbered(100)
    for (let i = 0; i < 100; i += 25) await driver.produce(topic, records.slice(i, i + 25))
    for (const [after, wanted] of [[0, 0], [41_500, 42], [42_000, 42], [50_000, 50], [99_000, 99], [99_001, 100]]) {
      check(`offset at +${after} ms`, await driver.atTime(topic, FIRST_TIMESTAMP + after), wanted)
    }
    check('consumed from there', values(await driver.read(topic, 0, 42, 100)), range(42, 100))
  },

  async idempotent(driver, topic) {
    await driver.create(topic, 3, {})
    const records = range(0, 3000).map(i => ({ partition: i % 3, key: 'k', value: String(Math.floor(i / 3)) }))
    await driver.produce(topic, records, { idempotent: true })
    for (const partition of [0, 1, 2]) {
      check(`bounds of partition ${partition}`, await driver.bounds(topic, partition), [0, 1000])
      const found = values(await driver.read(topic, partition, 0, 1000))
      check(`partition ${partition} none lost, none doubled, in order`, found, range(0, 1000))
    }
  },

  async compaction(driver, topic) {
    await driver.create(topic, 1, {
      'cleanup.policy': 'compact',
      'segment.ms': '300',
      'segment.bytes': '1048576',
      'min.cleanable.dirty.ratio': '0.01',
      'delete.retention.ms': '100',
    })
    const keys = range(0, 10).map(k => `key-${k}`)
    for (let round = 0; round < 5; round++) {
      const records = range(0, 4).flatMap(version =>
        keys.map(key => ({ partition: 0, key, value: `round ${round} version ${version}` }))
      )
      await driver.produce(topic, [...records, { partition: 0, key: 'gone', value: 'here' }])
    }
    await driver.produce(topic, [{ partition: 0, key: 'gone', value: null }])
    const deadline = Date.now() + COMPACT_WITHIN_MS
    for (;;) {
      // A record that comes after segment.ms closes the segment before it; only closed segments are compacted.
      await driver.produce(topic, [{ partition: 0, key: 'tick', value: 'tick' }])
      const [begin, end] = await driver.bounds(topic, 0)
      const all = await driver.read(topic, 0, begin, end)
      const offsets = all.map(record => record.offset)
      assert.deepEqual(offsets, [...offsets].sort((a, b) => a - b), 'compaction changed the order')
      const left = all.filter(record => record.key.toString() !== 'tick')
      const latest = Object.fromEntries(left.map(({ key, value }) => [key.toString(), value && value.toString()]))
      assert.ok(latest.gone == null, 'the deleted key came back')
      for (const key of keys) assert.equal(latest[key], 'round 4 version 3', `the last value of ${key} is lost`)
      const kept = left.filter(record => record.value !== null).length
      if (kept === keys.length) break
      if (Date.now() > deadline) throw new Error(`still ${kept} values for ${keys.length} keys`)
      await pause(100)
    }
    say({ check: 'one value for each key' })
  },

  async delete(driver, topic) {
    await driver.create(topic, 1, KEEP)
    await driver.produce(topic, numbered(10))
    // Also lets the admin client learn the leaders, without which it refuses to delete records.
    check('bounds', await driver.bounds(topic, 0), [0, 10])
    await driver.admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '5' }] })
    check('bounds after deleting records', await driver.bounds(topic, 0), [5, 10])
    check('what is left', values(await driver.read(topic, 0, 5, 10)), range(5, 10))
    await driver.admin.deleteTopics({ topics: [topic] })
    const deadline = Date.now() + 15_000
    while ((await driver.partitions(topic)) !== null) {
      if (Date.now() > deadline) throw new Error('the deleted topic stays in metadata')
      await pause(50)
    }
    say({ check: 'gone from metadata' })
  },
}

async function main() {
  const [bootstrap, scenario, prefix] = process.argv.slice(2)
  if (scenario === 'version') return say({ version: require('kafkajs/package.json').version })
  await zstd.init()
  const driver = new Driver(bootstrap)
  await driver.connect()
  const topic = `${prefix}-${scenario}`
  if (scenario.startsWith('produce-')) await SCENARIOS.produce(driver, topic, scenario.slice('produce-'.length))
  else await SCENARIOS[scenario](driver, topic)
  await driver.close()
}

main().then(
  () => process.exit(0),
  error => {
    console.error(error)
    process.exit(1)
  }
)
