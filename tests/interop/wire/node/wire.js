'use strict';

// Runs scenarios with ali-ons and prints one JSON line for each: scenario, ok, seconds, error.
//
//   node wire.js namesrv=ADDR run=NAME scenarios=a,b,c [accessKey=KEY secretKey=SECRET] [patience=SECONDS]
//
// ali-ons cannot make topics: RUN-SCENARIO has to exist for each of them. All run at the same time. A scenario that needs
// something done to the servers prints {"ask":"..."} and waits for a line on standard input.

const assert = require('assert');
const readline = require('readline');
const httpclient = require('urllib');
const { Consumer, Message, Producer } = require('ali-ons');

let patienceMs = 90 * 1000;
const quiet = { debug() {}, info() {}, warn() {}, error(...words) { console.error(...words); } };
let instances = 0;

class Stage {
  constructor(scenario, settings) {
    this.scenario = scenario;
    this.settings = settings;
    this.topic = `${settings.run}-${scenario}`;
    this.names = 0;
    this.clients = [];
  }

  name() {
    this.names += 1;
    return `${this.topic}-${this.names}`;
  }

  options() {
    instances += 1;
    const { namesrv, accessKey, secretKey } = this.settings;
    // Without a key the client signs nothing.
    return { httpclient, logger: quiet, nameSrv: namesrv, accessKey, secretKey, instanceName: `node-${process.pid}-${instances}` };
  }

  async producer() {
    const producer = new Producer({ ...this.options(), producerGroup: this.name(), sendMsgTimeout: 20000 });
    this.clients.push(producer);
    await producer.ready();
    return producer;
  }

  // Begins with the first message; what it receives goes to the inbox, or to the handler.
  async listen(group, expression, inbox, options = {}) {
    const consumer = new Consumer({
      ...this.options(), consumerGroup: group, consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET', ...options,
    });
    this.clients.push(consumer);
    consumer.on('error', error => inbox.errors.push(String(error)));
    consumer.subscribe(this.topic, expression, async message => inbox.take(message));
    await consumer.ready();
    return consumer;
  }

  async close() {
    for (const client of this.clients.reverse()) {
      try {
        await client.close();
      } catch (error) {
        console.error(this.scenario, error);
      }
    }
  }
}

class Inbox {
  constructor(decide = () => undefined) {
    this.decide = decide;
    this.messages = [];
    this.arrivals = [];
    this.errors = [];
  }

  take(message) {
    this.messages.push(message);
    this.arrivals.push(Date.now());
    return this.decide(message);
  }

  bodies() {
    return this.messages.map(message => message.body.toString()).sort();
  }

  // Waits for exactly these bodies, in any order, none twice.
  async await(expected) {
    try {
      await until(`${expected.length} messages`, () => this.messages.length >= expected.length);
    } catch (error) {
      throw new Error(`${error.message}; received ${this.bodies()}; errors: ${this.errors}`);
    }
    assert.deepStrictEqual(this.bodies(), [ ...expected ].sort());
  }
}

async function until(what, condition) {
  const deadline = Date.now() + patienceMs;
  while (!condition()) {
    if (Date.now() > deadline) {
      throw new Error(`after ${patienceMs / 1000} s still no ${what}`);
    }
    await new Promise(resolve => setTimeout(resolve, 20));
  }
}

async function send(producer, topic, word, count) {
  const bodies = [];
  for (let i = 0; i < count; i++) {
    const message = new Message(topic, 'tag', `${word} ${i}`);
    const result = await producer.send(message);
    assert.strictEqual(result.sendStatus, 'SEND_OK');
    bodies.push(`${word} ${i}`);
  }
  return bodies;
}

// Have the caller do something to the servers; returns when it is done.
async function ask(what) {
  const lines = readline.createInterface({ input: process.stdin });
  const answer = new Promise(resolve => lines.once('line', resolve));
  console.log(JSON.stringify({ ask: what }));
  assert.strictEqual(await answer, 'done');
  lines.close();
}

const scenarios = {
  async retry(stage) {
    const inbox = new Inbox(message => (message.reconsumeTimes === 0 ? Consumer.ACTION_RETRY : undefined));
    await stage.listen(stage.name(), '*', inbox);
    await send(await stage.producer(), stage.topic, 'again', 1);
    await inbox.await([ 'again 0', 'again 0' ]);
    assert.deepStrictEqual(inbox.messages.map(message => message.reconsumeTimes), [ 0, 1 ]);
    assert.strictEqual(inbox.messages[1].retryTopic, stage.topic);
  },

  async rebalance(stage) {
    const group = stage.name();
    const [ one, two ] = [ new Inbox(), new Inbox() ];
    await stage.listen(group, '*', one);
    await stage.listen(group, '*', two);
    const producer = await stage.producer();
    let sent = 0;
    // Rounds of messages over all queues, until both were given some of the same round.
    const deadline = Date.now() + patienceMs;
    let shared = false;
    while (!shared) {
      assert(Date.now() < deadline, 'never both took part');
      const before = [ one.messages.length, two.messages.length ];
      sent += (await send(producer, stage.topic, `round ${sent}`, 8)).length;
      await until('the whole round', () => new Set([ ...one.bodies(), ...two.bodies() ]).size >= sent);
      shared = one.messages.length > before[0] && two.messages.length > before[1];
    }
  },

  async broadcast(stage) {
    const group = stage.name();
    const inboxes = [ new Inbox(), new Inbox() ];
    for (const inbox of inboxes) {
      await stage.listen(group, '*', inbox, { isBroadcast: true });
    }
    const bodies = await send(await stage.producer(), stage.topic, 'to all', 6);
    for (const inbox of inboxes) {
      await inbox.await(bodies);
    }
  },

  async delayed(stage) {
    const inbox = new Inbox();
    await stage.listen(stage.name(), '*', inbox);
    const message = new Message(stage.topic, 'tag', 'later');
    message.delayTimeLevel = 2;
    const producer = await stage.producer();
    const began = Date.now();
    await producer.send(message);
    await inbox.await([ 'later' ]);
    const waited = inbox.arrivals[0] - began;
    assert(waited >= 5000, `came after ${waited} ms`);
  },

  async send_and_receive(stage) {
    const producer = await stage.producer();
    const sent = new Map();
    for (let i = 0; i < 20; i++) {
      const message = new Message(stage.topic, 'tag', `body ${i}`);
      message.keys = [ `key-${i}`, 'every' ];
      message.properties.number = String(i);
      sent.set(`body ${i}`, await producer.send(message));
    }
    const inbox = new Inbox();
    await stage.listen(stage.name(), '*', inbox);
    await inbox.await([ ...sent.keys() ]);
    for (const message of inbox.messages) {
      const result = sent.get(message.body.toString());
      assert.strictEqual(Number(message.queueOffset), Number(result.queueOffset));
      assert.strictEqual(Number(message.queueId), Number(result.messageQueue.queueId));
      assert.strictEqual(message.keys, `key-${message.properties.number} every`);
      assert.strictEqual(message.tags, 'tag');
    }
  },

  async tags(stage) {
    const inbox = new Inbox();
    await stage.listen(stage.name(), 'TagA || TagC', inbox);
    const producer = await stage.producer();
    const wanted = [];
    for (let i = 0; i < 20; i++) {
      const tag = `Tag${'ABCD'[i % 4]}`;
      await producer.send(new Message(stage.topic, tag, `${tag} ${i}`));
      if (i % 2 === 0) {
        wanted.push(`${tag} ${i}`);
      }
    }
    await inbox.await(wanted);
  },

  async sql(stage) {
    const inbox = new Inbox();
    await stage.listen(stage.name(), { expressionType: 'SQL92', subString: 'a BETWEEN 3 AND 5' }, inbox);
    const producer = await stage.producer();
    for (let i = 0; i < 10; i++) {
      const message = new Message(stage.topic, 'tag', String(i));
      message.properties.a = String(i);
      await producer.send(message);
    }
    await inbox.await([ '3', '4', '5' ]);
  },

  async compressed(stage) {
    const body = 'the same again '.repeat(2000);
    await (await stage.producer()).send(new Message(stage.topic, 'tag', body));
    const inbox = new Inbox();
    await stage.listen(stage.name(), '*', inbox);
    await inbox.await([ body ]);
    assert(inbox.messages[0].storeSize < 4000, `stored in ${inbox.messages[0].storeSize} bytes`);
  },

  async continues(stage) {
    const group = stage.name();
    const producer = await stage.producer();
    const first = await send(producer, stage.topic, 'first', 20);
    const [ before, after ] = [ new Inbox(), new Inbox() ];
    const consumer = await stage.listen(group, '*', before);
    await before.await(first);
    // Offsets move on after the handler has returned; closing saves them.
    await new Promise(resolve => setImmediate(resolve));
    stage.clients = stage.clients.filter(client => client !== consumer);
    await consumer.close();
    const second = await send(producer, stage.topic, 'second', 8);
    await stage.listen(group, '*', after);
    await after.await(second);
  },

  // The master of the queues ends for good: the rest comes from the slave.
  async master_lost(stage) {
    let gate = Promise.resolve();
    const inbox = new Inbox(() => gate);
    // Few messages are kept by the client: what comes after the end of the master came from the slave.
    const few = { pullThresholdForQueue: 4, pullBatchSize: 4, pollNameServerInteval: 1000 };
    await stage.listen(stage.name(), '*', inbox, few);
    const producer = await stage.producer();
    const bodies = await send(producer, stage.topic, 'before', 20);
    await inbox.await(bodies);
    let open;
    gate = new Promise(resolve => { open = resolve; });
    bodies.push(...await send(producer, stage.topic, 'rest', 200));
    await ask('lose_master');
    open();
    await until('the rest from the slave', () => new Set(inbox.bodies()).size >= bodies.length);
    assert.deepStrictEqual([ ...new Set(inbox.bodies()) ], bodies.sort());
  },
};

async function perform(name, settings) {
  const began = Date.now();
  const line = { scenario: name, ok: false };
  const stage = new Stage(name, settings);
  try {
    await scenarios[name](stage);
    line.ok = true;
  } catch (error) {
    line.error = error.stack;
  }
  line.seconds = (Date.now() - began) / 1000;
  console.log(JSON.stringify(line));
  await stage.close();
}

async function main() {
  const settings = Object.fromEntries(process.argv.slice(2).map(word => word.split('=')));
  if ('list' in settings) {
    console.log(JSON.stringify(Object.keys(scenarios)));
    return;
  }
  if ('patience' in settings) patienceMs = settings.patience * 1000;
  await Promise.all(settings.scenarios.split(',').map(name => perform(name, settings)));
  process.exit(0);
}

main().catch(error => {
  console.error(error);
  process.exit(1);
});
