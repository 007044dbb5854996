// What a client built on nostr-tools does with a relay; the first argument is its URL.
import assert from 'node:assert/strict';
import WebSocket from 'ws';
import { finalizeEvent, generateSecretKey, getPublicKey, verifyEvent } from 'nostr-tools/pure';
import { Relay, useWebSocketImplementation as useForRelay } from 'nostr-tools/relay';
import { SimplePool, useWebSocketImplementation as useForPool } from 'nostr-tools/pool';

useForRelay(WebSocket);
useForPool(WebSocket);

const url = process.argv[2];
const secret = generateSecretKey();
const author = getPublicKey(secret);
const now = Math.floor(Date.now() / 1000);
const sign = (kind, content, tags = [], created_at = now) => finalizeEvent({ kind, content, tags, created_at }, secret);

const relay = await Relay.connect(url);
const pool = new SimplePool();

// Stored events up to EOSE, newest first.
const query = (...filters) =>
  new Promise((resolve, reject) => {
    const found = [];
    const subscription = relay.subscribe(filters, {
      onevent: (event) => found.push(event),
      oneose: () => {
        subscription.close();
        resolve(found);
      },
      onclose: (reason) => reject(new Error(reason)),
    });
    // Closing it ourselves after EOSE is no refusal.
    subscription.onclose = () => {};
  });

// Publish and query.
const notes = [];
for (const [index, content] of ['one', 'two 🦜', 'three "quoted"\n\u0000'].entries()) {
  const note = sign(1, content, [['t', 'esker']], now - 10 + index);
  await relay.publish(note);
  notes.push(note);
}
const found = await query({ authors: [author], kinds: [1], '#t': ['esker'] });
assert.deepEqual(found.map((event) => event.id), notes.map((event) => event.id).reverse());
assert.deepEqual(found.map((event) => event.content), notes.map((event) => event.content).reverse());
assert.ok(found.every(verifyEvent));
assert.equal((await query({ authors: [author], limit: 1 })).length, 1);
assert.equal((await query({ ids: [] })).length, 0);

// A duplicate is no failure; a forged event is one.
await relay.publish(notes[0]);
await assert.rejects(relay.publish({ ...sign(1, 'forged'), sig: '0'.repeat(128) }), /invalid/);

// Count.
assert.equal(await relay.count([{ authors: [author], kinds: [1] }], {}), 3);

// Live, from another connection.
const live = new Promise((resolve, reject) => {
  const subscription = pool.subscribe([url], { authors: [author], kinds: [1], since: now }, {
    onevent: (event) => resolve({ event, subscription }),
    oneose: () => relay.publish(sign(1, 'live')).catch(reject),
  });
});
const { event, subscription } = await live;
assert.equal(event.content, 'live');
subscription.close();

// Delete.
await relay.publish(sign(5, 'mistake', [['e', notes[0].id], ['k', '1']]));
assert.equal((await query({ ids: [notes[0].id] })).length, 0);
await assert.rejects(relay.publish(notes[0]), /blocked/);

// Replace, by author and by address.
await relay.publish(sign(0, '{"name":"first"}', [], now - 5));
await relay.publish(sign(0, '{"name":"second"}', [], now));
await assert.rejects(relay.publish(sign(0, '{"name":"late"}', [], now - 3)), /replaced/);
assert.deepEqual((await query({ kinds: [0], authors: [author] })).map((event) => event.content), ['{"name":"second"}']);
for (const [address, content, time] of [['a', 'a1', 3], ['b', 'b1', 2], ['a', 'a2', 1]]) {
  await relay.publish(sign(30023, content, [['d', address]], now - time));
}
const articles = await query({ kinds: [30023], authors: [author], '#d': ['a', 'b'] });
assert.deepEqual(articles.map((event) => event.content), ['a2', 'b1']);

// The pool's own questions.
assert.equal((await pool.get([url], { ids: [notes[1].id] })).id, notes[1].id);
assert.equal((await pool.querySync([url], { authors: [author], kinds: [1] })).length, 3);

pool.close([url]);
relay.close();
console.log('all steps passed');
