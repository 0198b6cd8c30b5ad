// A member of a group with kafkajs.
//
//     node member.js BOOTSTRAP GROUP TOPIC ASSIGNOR SESSION_MS
//
// Prints what happens to it as ../python/member.py describes, and leaves the group when its standard input ends.
'use strict'

const fs = require('node:fs')
const { Kafka, PartitionAssigners, logLevel } = require('kafkajs')

const ASSIGNORS = { roundrobin: PartitionAssigners.roundRobin }

// One write for each line, so that a kill leaves whole lines.
const say = (...words) => fs.writeSync(1, `${process.hrtime.bigint()} ${words.join(' ')}\n`)

async function main() {
  const [bootstrap, groupId, topic, assignor, session] = process.argv.slice(2)
  const sessionTimeout = Number(session)
  const kafka = new Kafka({
    brokers: bootstrap.split(","),
    logLevel: logLevel.NOTHING,
    // A broker that is away for a while is no reason to end.
    retry: { initialRetryTime: 50, maxRetryTime: 500, retries: 30, restartOnFailure: async () => true },
  })
  const consumer = kafka.consumer({
    groupId,
    sessionTimeout,
    heartbeatInterval: Math.floor(sessionTimeout / 12),
    rebalanceTimeout: 20_000,
    maxWaitTimeInMs: 100,
    partitionAssigners: [ASSIGNORS[assignor]],
  })

  let owned = []
  let before = []
  const giveUp = event => {
    if (owned.length === 0) return
    say(event, owned.join(','))
    before = owned
    owned = []
  }
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    // A member that the group no longer knew joins again and says nothing before.
    giveUp('lost')
    owned = (payload.memberAssignment[topic] ?? []).sort((a, b) => a - b)
    if (owned.length > 0) say('assigned', owned.join(','))
  })
  consumer.on(consumer.events.REBALANCING, () => giveUp('revoked'))
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    say('trouble', 'crash:', payload.error.message)
    giveUp('lost')
  })

  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachBatchAutoResolve: false,
    eachBatch: async ({ batch, resolveOffset, heartbeat, commitOffsetsIfNecessary, isRunning, isStale }) => {
      if (!isRunning() || isStale()) return
      if (owned.length === 0) {
        // kafkajs was about to join again, could not, and goes on with what it had.
        owned = before
        say('assigned', owned.join(','))
      }
      for (const message of batch.messages) {
        say('record', batch.partition, message.offset, message.value.toString())
        resolveOffset(message.offset)
      }
      const offset = String(BigInt(batch.lastOffset()) + 1n)
      await commitOffsetsIfNecessary({ topics: [{ topic, partitions: [{ partition: batch.partition, offset }] }] })
      say('committed', `${batch.partition}:${offset}`)
      await heartbeat()
    },
  })

  process.stdin.resume()
  await new Promise(resolve => process.stdin.on('end', resolve))
  await consumer.stop()
  giveUp('revoked')
  await consumer.disconnect()
  say('left')
}

main().then(
  () => process.exit(0),
  error => {
    console.error(error)
    process.exit(1)
  }
)
