import type { ServerResponse } from 'node:http'

import { pick } from './chance.ts'

const answers = {
  reset: (out) => void out.socket?.destroy(),
  'status 500': (out) => void out.writeHead(500).end('no'),
  'status 503': (out) => void out.writeHead(503, { 'retry-after': '0' }).end(),
  'status 408': (out) => void out.writeHead(408).end(),
  'status 425': (out) => void out.writeHead(425).end(),
  'status 429': (out) => void out.writeHead(429, { 'retry-after': '1' }).end(),
  'status 409': (out) => void out.writeHead(409).end('{"detail":"known"}'),
  redirect: (out) => void out.writeHead(307, { location: 'http://127.0.0.1:1/' }).end(),
  'slow answer': (out) => void setTimeout(() => out.end('{}'), 700),
  'answer that comes too late': (out) => void setTimeout(() => out.end('{}'), 11_000),
  'half answer': (out) => {
    out.writeHead(200, { 'content-length': '9' })
    out.write('{', () => out.socket?.destroy())
  },
  'answer that never ends': (out) => {
    const writing = setInterval(() => out.write('x'.repeat(10_000)), 100)
    out.on('close', () => clearInterval(writing))
  },
} satisfies Record<string, (out: ServerResponse) => void>

const weights: [keyof typeof answers, number][] = [
  ['reset', 0.05],
  ['status 500', 0.04],
  ['status 503', 0.04],
  ['status 408', 0.02],
  ['status 425', 0.01],
  ['status 429', 0.03],
  ['status 409', 0.01],
  ['redirect', 0.01],
  ['slow answer', 0.04],
  ['answer that comes too late', 0.002],
  ['half answer', 0.03],
  ['answer that never ends', 0.005],
]

/** Faults that end an attempt at once, so that the callback is sent again after the delay between two attempts. */
const brief: ReadonlySet<string | undefined> = new Set<keyof typeof answers>([
  'reset',
  'status 500',
  'status 503',
  'status 408',
  'status 425',
  'status 429',
])

/** Whether the callback is not sent again after this fault, or without one: its status has acknowledged or refused it. */
export function isFinal(fault: string | undefined): boolean {
  return !brief.has(fault) && fault !== 'answer that comes too late'
}

/**
 * Answers a callback. Returns the injected fault, if any.
 *
 * @param mild - whether to inject only faults that end an attempt at once and let the callback be sent again
 */
export function acknowledge(
  out: ServerResponse,
  chance: number,
  mild: boolean,
): string | undefined {
  const picked = pick<keyof typeof answers | undefined>(chance, weights, undefined)
  const fault = mild && !brief.has(picked) ? undefined : picked
  if (fault === undefined)
    out.writeHead(200, { 'content-type': 'application/json' }).end('{"status":"ok"}')
  else answers[fault](out)
  return fault
}
