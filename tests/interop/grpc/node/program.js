'use strict';

// Runs scenarios with RocketMQ's 5.x client and prints one JSON line for each: scenario, ok, seconds, error.
//
//   node program.js endpoints=ADDR run=NAME scenarios=a,b,c
//
// The client makes no topics: RUN-SCENARIO has to exist for each of them, and so have groups that are not as by default.
// All run at the same time.

const assert = require('assert');
const { ConsumeResult, FilterExpression, Producer, PushConsumer, SimpleConsumer } = require('rocketmq-client-nodejs');
const {
  FilterType, TransactionResolution,
} = require('rocketmq-client-nodejs/proto/apache/rocketmq/v2/definition_pb');

const PATIENCE_MS = 60 * 1000;
const QUIET = { debug() {}, info() {}, warn() {}, error(...words) { console.error(...words); } };

const sleep = ms => new Promise(done => setTimeout(done, ms));

async function until(what, condition) {
  const deadline = Date.now() + PATIENCE_MS;
  while (!await condition()) {
    assert(Date.now() < deadline, `after ${PATIENCE_MS} ms still no ${what}`);
    await sleep(20);
  }
}

// What a consumer got; decide says how it ended for each message.
class Inbox {
  constructor(decide = () => true) {
    this.decide = decide;
    this.messages = [];
    this.times = [];
  }

  async consume(message) {
    this.messages.push(message);
    this.times.push(Date.now());
    return this.decide(message) ? ConsumeResult.SUCCESS : ConsumeResult.FAILURE;
  }

  get bodies() {
    return this.messages.map(message => message.body.toString());
  }

  async wait(count) {
    await until(`${count} messages; there are ${this.bodies}`, () => this.messages.length >= count);
  }
}

class Stage {
  constructor(scenario, settings) {
    this.topic = `${settings.run}-${scenario.replace(/_/g, '-')}`;
    this.group = `${this.topic}-g`;
    this.options = { namespace: '', endpoints: settings.endpoints, requestTimeout: 10000, logger: QUIET };
    this.clients = [];
  }

  async started(client) {
    await client.startup();
    this.clients.push(client);
    return client;
  }

  producer(more = {}) {
    return this.started(new Producer({ ...this.options, topic: this.topic, ...more }));
  }

  push(inbox, expression = '*') {
    const subscriptions = new Map([[ this.topic, expression ]]);
    return this.started(new PushConsumer({
      ...this.options, consumerGroup: this.group, subscriptions, messageListener: inbox,
    }));
  }

  simple(topic = this.topic, consumerGroup = this.group) {
    const subscriptions = new Map([[ topic, '*' ]]);
    return this.started(new SimpleConsumer({ ...this.options, consumerGroup, subscriptions, awaitDuration: 5000 }));
  }

  message(body, more = {}) {
    return { topic: this.topic, body: Buffer.from(body), ...more };
  }

  async close() {
    for (const client of this.clients.reverse()) await client.shutdown().catch(error => console.error(error));
  }
}

async function receive(consumer, count) {
  const found = [];
  await until(`${count} messages`, async () => {
    found.push(...await consumer.receive(32, 30000));
    return found.length >= count;
  });
  assert.strictEqual(found.length, count);
  return found;
}

const SCENARIOS = {
  async send(stage) {
    const producer = await stage.producer();
    const properties = new Map([[ 'colour', 'red' ]]);
    const receipt = await producer.send(stage.message('hello', { tag: 'A', keys: [ 'k1', 'k2' ], properties }));
    const consumer = await stage.simple();
    const [ got ] = await receive(consumer, 1);
    assert.strictEqual(got.body.toString(), 'hello');
    assert.deepStrictEqual([ got.topic, got.tag, got.messageId ], [ stage.topic, 'A', receipt.messageId ]);
    assert.deepStrictEqual([ ...got.keys ].sort(), [ 'k1', 'k2' ]);
    assert.strictEqual(got.properties.get('colour'), 'red');
    assert.strictEqual(got.deliveryAttempt, 1);
    assert(!got.corrupted && got.bornHost);
    await consumer.ack(got);
    assert.strictEqual((await consumer.receive(1, 30000)).length, 0);
  },

  async push(stage) {
    const inbox = new Inbox();
    await stage.push(inbox);
    const producer = await stage.producer();
    const expected = [];
    for (let i = 0; i < 50; i++) {
      expected.push(`m${i}`);
      await producer.send(stage.message(`m${i}`));
    }
    await inbox.wait(50);
    assert.deepStrictEqual([ ...inbox.bodies ].sort(), expected.sort());
  },

  async tags(stage) {
    const producer = await stage.producer();
    for (const tag of 'ABCAB') await producer.send(stage.message(tag, { tag }));
    const inbox = new Inbox();
    await stage.push(inbox, 'A || C');
    await inbox.wait(3);
    await sleep(1000);
    assert.deepStrictEqual([ ...inbox.bodies ].sort(), [ 'A', 'A', 'C' ]);
  },

  async sql(stage) {
    const producer = await stage.producer();
    for (let i = 0; i < 10; i++) {
      await producer.send(stage.message(`m${i}`, { tag: 'T', properties: new Map([[ 'size', String(i) ]]) }));
    }
    const inbox = new Inbox();
    await stage.push(inbox, new FilterExpression("size >= 7 AND TAGS = 'T'", FilterType.SQL));
    await inbox.wait(3);
    await sleep(1000);
    assert.deepStrictEqual([ ...inbox.bodies ].sort(), [ 'm7', 'm8', 'm9' ]);
  },

  async fifo(stage) {
    const producer = await stage.producer();
    for (let i = 0; i < 10; i++) {
      for (const messageGroup of [ 'red', 'green' ]) {
        await producer.send(stage.message(`${messageGroup}-${i}`, { messageGroup }));
      }
    }
    const inbox = new Inbox();
    await stage.push(inbox);
    await inbox.wait(20);
    for (const group of [ 'red', 'green' ]) {
      const expected = Array.from({ length: 10 }, (_, i) => `${group}-${i}`);
      assert.deepStrictEqual(inbox.bodies.filter(body => body.startsWith(group)), expected);
    }
  },

  async delay(stage) {
    const inbox = new Inbox();
    await stage.push(inbox);
    const producer = await stage.producer();
    const due = Date.now() + 3000;
    const receipt = await producer.send(stage.message('later', { deliveryTimestamp: new Date(due) }));
    assert(receipt.recallHandle);
    await inbox.wait(1);
    assert(inbox.times[0] >= due, `${due - inbox.times[0]} ms early`);
  },

  async transaction(stage) {
    const asked = [];
    const checker = {
      async check(message) {
        asked.push(message.body.toString());
        return message.body.toString() === 'check' ? TransactionResolution.COMMIT : TransactionResolution.ROLLBACK;
      },
    };
    const producer = await stage.producer({ checker });
    const inbox = new Inbox();
    await stage.push(inbox);
    for (const body of [ 'commit', 'rollback', 'check', 'drop' ]) {
      const opened = producer.beginTransaction();
      await producer.send(stage.message(body), opened);
      if (body === 'commit') await opened.commit();
      if (body === 'rollback') await opened.rollback();
    }
    await inbox.wait(2);
    await until('question for the last one', () => asked.includes('drop'));
    assert.deepStrictEqual([ ...inbox.bodies ].sort(), [ 'check', 'commit' ]);
  },

  async retry(stage) {
    const inbox = new Inbox(message => message.deliveryAttempt > 1);
    await stage.push(inbox);
    const producer = await stage.producer();
    await producer.send(stage.message('again', { tag: 'A' }));
    await inbox.wait(2);
    const [ first, second ] = inbox.messages;
    assert.deepStrictEqual([ first.deliveryAttempt, second.deliveryAttempt ], [ 1, 2 ]);
    assert.deepStrictEqual([ second.messageId, second.topic, second.tag ], [ first.messageId, stage.topic, 'A' ]);
  },

  async change_invisible(stage) {
    const producer = await stage.producer();
    await producer.send(stage.message('twice'));
    const consumer = await stage.simple();
    const [ got ] = await receive(consumer, 1);
    await consumer.changeInvisibleDuration(got, 3000);
    const [ again ] = await receive(consumer, 1);
    assert.deepStrictEqual([ again.messageId, again.deliveryAttempt ], [ got.messageId, 2 ]);
    await consumer.ack(again);
    assert.strictEqual((await consumer.receive(1, 30000)).length, 0);
  },

  async refused(stage) {
    const producer = await stage.producer();
    await assert.rejects(producer.send(stage.message('wrong', { messageGroup: 'g' })), /type/i);
  },
};

async function perform(name, settings) {
  const began = Date.now();
  const stage = new Stage(name, settings);
  const line = { scenario: name, ok: true, seconds: 0, error: '' };
  try {
    await SCENARIOS[name](stage);
  } catch (error) {
    line.ok = false;
    line.error = String(error && error.stack || error);
  }
  line.seconds = (Date.now() - began) / 1000;
  console.log(JSON.stringify(line));
  await stage.close();
}

async function main() {
  const settings = Object.fromEntries(process.argv.slice(2).map(word => word.split(/=(.*)/s).slice(0, 2)));
  if (settings.list) {
    console.log(JSON.stringify(Object.keys(SCENARIOS)));
    return;
  }
  await Promise.all(settings.scenarios.split(',').map(name => perform(name, settings)));
}

main().then(() => process.exit(0), error => {
  console.error(error);
  process.exit(1);
});
