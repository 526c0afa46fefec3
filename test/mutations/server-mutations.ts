import type { Mutation } from './mutation.ts'

const server = 'packages/server/src'
const retention = { tests: ['packages/server/test/retention.test.ts'] }
const registry = { file: `${server}/leases/lease-registry.ts`, ...retention }
const ended = { file: `${server}/delivery/ended-rollouts.ts`, ...retention }
const bytes = { tests: ['packages/server/test/same-bytes.test.ts'] }
const closing = { tests: ['packages/server/test/closing-callers.test.ts'] }
const failures = { tests: ['packages/server/test/failed-writes.test.ts'] }
const repeated = { tests: ['packages/server/test/repeated-requests.test.ts'] }
const journal = {
  file: `${server}/journal/journal.ts`,
  tests: ['packages/server/test/outbox-model.test.ts'],
}
const records = { file: `${server}/journal/journal-records.ts`, tests: journal.tests }
const memory = {
  file: 'packages/protocol/src/http/rollout-memory.ts',
  tests: ['packages/protocol/test/http/rollout-memory.test.ts'],
}

/** What a server promises to its callers, over restarts, failures of its disk and its end. */
export const serverMutations: readonly Mutation[] = [
  {
    name: 'server: the time of a stored result starts anew at a restart',
    from: 'this.#retain(rollout, this.#retentionMs - ageMs)',
    to: 'this.#retain(rollout, this.#retentionMs)',
    ...registry,
  },
  {
    name: 'server: results that are forgotten keep their bytes',
    from: '    this.#bytes -= rollout.size\n',
    to: '',
    ...registry,
  },
  {
    name: 'server: results that are forgotten keep their place',
    from: '    this.#rollouts.delete(rollout.rolloutId)\n',
    to: '',
    ...registry,
  },
  {
    name: 'server: results that are forgotten are counted',
    from: '    this.#expiries.delete(rollout)\n',
    to: '',
    ...registry,
  },
  {
    name: 'server: only the first result is forgotten in time',
    from: '        this.#arm(expiresAt - now)\n',
    to: '',
    ...registry,
  },
  {
    name: 'server: results that are forgotten remain in the outbox',
    from: 'if (record !== undefined) this.#writes.start(async () => record.remove())',
    to: '',
    ...registry,
  },
  {
    name: 'server: results have as many bytes as the server likes',
    from: ' && this.#bytes < this.#maxBytes',
    to: '',
    file: registry.file,
    tests: ['packages/server/test/leases.test.ts'],
  },
  {
    name: 'server: a delivered rollout is remembered anew at a restart',
    file: `${server}/http/admission.ts`,
    from: '{ digest, answer: Promise.resolve(answer), state }, ageMs)',
    to: '{ digest, answer: Promise.resolve(answer), state }, 0)',
    ...retention,
  },
  {
    name: 'server: rollouts are forgotten when ten thousand others ended',
    from: 'return [...older, ...current]',
    to: 'return this.#lines === older.length ? [...older, ...current] : current',
    ...ended,
  },
  {
    name: 'server: the older of two lists of ended rollouts is not kept',
    from: 'await rename(this.#path, this.#olderPath).catch(unlessMissing)',
    to: 'await rename(this.#path, `${this.#olderPath}.gone`).catch(unlessMissing)',
    ...ended,
  },
  {
    name: 'server: a thousand ended rollouts are remembered',
    from: 'maxCount = 10_000',
    to: 'maxCount = 1000',
    ...memory,
  },
  {
    name: 'server: ended rollouts are remembered for a minute',
    from: 'maxAgeMs = 15 * 60_000,',
    to: 'maxAgeMs = 60_000,',
    ...memory,
  },
  {
    name: 'server: ended rollouts are never forgotten',
    from: '      this.#ended.delete(id)\n    }',
    to: '    }',
    ...memory,
  },
  {
    name: 'server: a callback that is sent again has another body',
    file: `${server}/delivery/callback-delivery.ts`,
    from: 'return this.#post(callback)',
    to: 'return this.#post(attempts > 1 ? { ...callback, body: `${callback.body} ` } : callback)',
    ...bytes,
  },
  {
    name: 'server: a callback that is sent again has another key',
    file: `${server}/delivery/callback-delivery.ts`,
    from: 'return this.#post(callback)',
    to: 'return this.#post({ ...callback, idempotencyKey: `${callback.idempotencyKey}/${attempts}` })',
    ...bytes,
  },
  {
    name: 'server: a stored callback is written anew by the next process',
    file: `${server}/journal/outbox-lines.ts`,
    from: 'return { rolloutId, kind, url, apiKey, idempotencyKey, body }',
    to: 'return { rolloutId, kind, url, apiKey, idempotencyKey, body: JSON.stringify(JSON.parse(body), undefined, 1) }',
    ...bytes,
  },
  {
    name: 'server: a callback of an earlier process is sent without its key',
    file: `${server}/journal/outbox-lines.ts`,
    from: 'return { rolloutId, kind, url, apiKey, idempotencyKey, body }',
    to: 'return { rolloutId, kind, url, apiKey: null, idempotencyKey, body }',
    ...bytes,
  },
  {
    name: 'server: the last callback that was built is sent',
    file: `${server}/delivery/outbox-record.ts`,
    from: 'if (waiting !== undefined) return waiting',
    to: 'if (waiting !== undefined) return callback',
    ...bytes,
  },
  {
    name: 'server: a leased result has other bytes at the next process',
    file: `${server}/leases/leased-rollout.ts`,
    from: 'if (this.decide()) this.#publish(end)',
    to: 'if (this.decide()) this.#publish({ ...end, json: `${end.json}\\n` })',
    ...bytes,
  },
  {
    name: 'server: its end does not wait for callers that poll',
    file: `${server}/work/server-life.ts`,
    from: '    await settle?.(graceMs)\n',
    to: '',
    ...closing,
  },
  {
    name: 'server: its end takes a caller that polls for a silent one',
    from: 'if (results.every(({ held, fetchedAt }) => !held || fetchedAt !== undefined)) {',
    to: 'if (results.every(({ held, fetchedAt }) => held || fetchedAt !== undefined)) {',
    file: registry.file,
    ...closing,
  },
  {
    name: 'server: its end waits for the first of several callers',
    from: 'if (results.every(({ held, fetchedAt }) => !held || fetchedAt !== undefined)) {',
    to: 'if (results.length < 2 || results.some(({ fetchedAt }) => fetchedAt !== undefined)) {',
    file: registry.file,
    ...closing,
  },
  {
    name: 'server: its end does not wait for rollouts that run',
    file: `${server}/work/server-life.ts`,
    from: '    await work.idleWithin(waitMs, this.#hurry.signal)\n',
    to: '',
    ...closing,
  },
  {
    name: 'server: a long answer is cut off when the port closes',
    file: `${server}/process/serve.ts`,
    from: '  while (isSending()) await sleep(idleCheckMs)\n',
    to: '',
    ...closing,
  },
  {
    name: 'server: connections are cut off when the port closes',
    file: `${server}/process/serve.ts`,
    from: '  http.close()\n',
    to: '  http.close()\n  http.closeAllConnections()\n',
    tests: ['packages/server/test/serving.test.ts'],
  },
  {
    name: 'server: one that is lost while its port opens remains',
    file: `${server}/process/serve.ts`,
    from: 'if (app.lost) addAbortListener(app.lost, () => closeSoon(0))',
    to: "app.lost?.addEventListener('abort', () => closeSoon(0))",
    tests: ['packages/server/test/serving.test.ts'],
  },
  {
    name: 'server: a step that cannot be written is in no log',
    file: `${server}/delivery/outbox-record.ts`,
    from: '      this.#storage.logger.error(line, `outbox is out of date: ${errorMessage(error)}`)\n',
    to: '',
    ...failures,
  },
  {
    name: 'server: an end that cannot be written is in no log',
    file: `${server}/delivery/outbox.ts`,
    from: '      this.#logger.error(line, `outbox is out of date: ${errorMessage(error)}`)\n',
    to: '',
    ...failures,
  },
  {
    name: 'server: a rollout that cannot be stored is accepted',
    file: `${server}/http/admission.ts`,
    from: "throw refusals.unavailable('the outbox cannot be written to')",
    to: 'return undefined as never',
    ...failures,
  },
  {
    name: 'server: a rollout that cannot be stored is in no log',
    file: `${server}/http/admission.ts`,
    from: '      this.#parts.logger.error(line, `rollout not accepted: ${errorMessage(error)}`)\n',
    to: '',
    ...failures,
  },
  {
    name: 'server: files that cannot be removed are in no log',
    file: `${server}/journal/journal-compaction.ts`,
    from: 'await this.#sweep().catch(this.#onError)',
    to: 'await this.#sweep().catch(() => {})',
    ...failures,
  },
  {
    name: 'server: a write that cannot be taken back is in no log',
    file: `${server}/journal/journal.ts`,
    from: "      this.#onError('a failed write cannot be rolled back', error)\n",
    to: '',
    ...failures,
  },
  {
    name: 'server: a rollout that may come back is in no log',
    file: `${server}/journal/journal.ts`,
    from: "        this.#onError('the next process may find rollouts that have ended', error)\n",
    to: '',
    ...failures,
  },
  {
    name: 'server: errors of the journal are in no log',
    file: `${server}/delivery/outbox.ts`,
    from: 'if (!this.#folder.isLost) logger.error({ error }, `${what}: ${errorMessage(error)}`)',
    to: '',
    ...failures,
  },
  {
    name: 'server: a file with a failed write remains open',
    file: `${server}/journal/journal.ts`,
    from: '    await this.#close(segment)\n',
    to: '',
    ...failures,
  },
  {
    name: 'server: a rollout runs again that is asked for while it is stored',
    file: `${server}/http/admission.ts`,
    from: '    this.#admitted.begin(key, admitted)\n    this.#start',
    to: '    this.#start',
    ...repeated,
  },
  {
    name: 'server: a rollout that was not accepted is known',
    file: `${server}/http/admission.ts`,
    from: '      await record?.remove()\n      this.#admitted.drop(key)\n',
    to: '      await record?.remove()\n',
    ...repeated,
  },
  {
    name: 'server: rollouts are accepted although the server ends',
    file: `${server}/http/admission.ts`,
    from: 'if (isPromise(preparing) || record !== undefined) {',
    to: 'if (isPromise(preparing)) {',
    ...repeated,
  },
  {
    name: 'server: a rollout that was refused remains in the outbox',
    file: `${server}/http/admission.ts`,
    from: '      await record?.remove()\n',
    to: '',
    ...repeated,
  },
  {
    name: 'server: the outbox is closed before a rollout is refused',
    file: `${server}/delivery/outbox.ts`,
    from: '    await Promise.all(this.#held)\n',
    to: '',
    ...repeated,
  },
  {
    name: 'server: compaction drops acceptances',
    from: 'if (record === undefined) continue\n      copied',
    to: "if (record === undefined || head?.kind === 'accepted') continue\n      copied",
    ...journal,
  },
  {
    name: 'server: compaction drops the callbacks that were sent',
    from: 'if (record === undefined) continue\n      copied',
    to: "if (record === undefined || head?.kind === 'callback') continue\n      copied",
    ...journal,
  },
  {
    name: 'server: compaction drops what arrived',
    from: 'if (record === undefined) continue\n      copied',
    to: "if (record === undefined || head?.kind === 'settled') continue\n      copied",
    ...journal,
  },
  {
    name: 'server: compaction forgets where an acceptance is',
    from: "isAcceptance: head?.kind === 'accepted' }",
    to: 'isAcceptance: false }',
    ...journal,
  },
  {
    name: 'server: a copied line is another step',
    from: 'if (!noteKinds.has(head.kind)) steps.set(head.number, text)',
    to: 'if (!noteKinds.has(head.kind)) steps.set(steps.size, text)',
    ...records,
  },
]
