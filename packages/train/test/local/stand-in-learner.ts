// Stands in for learner.py: keeps the updates that it is asked for beside its "model", a folder, and learns nothing.
import { appendFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { json } from 'node:stream/consumers'

/** The difference of logprobs that it finds in every update. */
const drift = 0.25

const folder = process.argv[process.argv.indexOf('--model') + 1] ?? ''
let version = 0

const server = createServer((request, response) => void answer(request, response))

async function answer(request: IncomingMessage, response: ServerResponse): Promise<unknown> {
  const body = (await json(request)) as { readonly max_drift: number }
  const say = (status: number, said: object): unknown =>
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(said))
  if (request.url !== '/update') return say(404, { error: { message: 'unknown', code: 'unknown' } })
  appendFileSync(path.join(folder, 'updates.jsonl'), `${JSON.stringify(body)}\n`)
  if (drift > body.max_drift) return say(409, { error: { message: 'too far', code: 'drift' } })
  version += 1
  const figures = { loss: 1, drift_mean: drift, drift_max: 3, entropy: 4, clip_fraction: 5, kl: 6 }
  return say(200, { version, ...figures, grad_norm: 7, tokens: 8, sequences: 9, seconds: 10 })
}

server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo
  const memory = { weights: 0, optimizer: 0, activations: 0, cache: 0, needed: 0, free: null }
  const facts = {
    model: 'stand-in',
    device: 'cpu',
    dtype: 'float32',
    weights: 1,
    trained_weights: 1,
  }
  const parsers = { sampler: 'torch', tool_parser: null, reasoning_parser: null }
  const url = `http://127.0.0.1:${port}`
  const started = { url, ...facts, max_length: 64, memory_bytes: memory, ...parsers }
  process.stdout.write(`${JSON.stringify(started)}\n`)
})
// It ends when its input does, as the learner.
process.stdin.on('end', () => process.exit()).resume()
