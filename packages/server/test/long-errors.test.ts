import { readFile } from 'node:fs/promises'
import path from 'node:path'

import { describe, expect, it } from 'vitest'

import { LeaseClient } from '../../../test/kit/index.ts'
import { graderOf, startServer, workflowOf, type RunningServer } from './running-server.ts'

const tenMegabytes = 10 * 1024 * 1024
const key = 'planted-key-of-the-llm'
/** Ten megabytes of keys, so that every cut goes through one. */
const longMessage = `${key} `
  .repeat(Math.floor(tenMegabytes / (key.length + 1)))
  .padEnd(tenMegabytes, '.')
const cutMessage =
  /^thrown by \w+\(\) at \S+:\d+: (\[redacted\] )+(\[[a-z]*)?… \[cut: \d+ characters in all\]$/

const failing = workflowOf(() => Promise.reject(new Error(longMessage)))

function errorOf(body: unknown): string {
  return (body as { err_message: string }).err_message
}

/** Whether a text is the beginning of the long message, without keys, in at most this many bytes. */
function isCut(text: string, longestBytes: number): boolean {
  const bytes = Buffer.byteLength(text)
  return cutMessage.test(text) && bytes <= longestBytes && bytes > longestBytes / 4
}

async function statusOf({ url }: RunningServer, id: string): Promise<unknown> {
  return (await fetch(`${url}/rollout/${id}/status`)).json()
}

describe('an error message of ten megabytes', () => {
  it('is cut to 8 KiB in callbacks, status and log, and to 64 KiB in the document', async () => {
    await using running = await startServer({ workflow: failing })
    await running.post({ llm_api_key: key })
    const [completion, grading] = await running.controller.bodies()

    expect(isCut(errorOf(completion), 8192)).toBe(true)
    expect(errorOf(grading)).toBe(errorOf(completion))
    expect(isCut(errorOf(await statusOf(running, 'r1')), 8192)).toBe(true)
    await running.server.drain()
    for (const line of running.log) {
      expect(JSON.stringify(line)).not.toMatch(/planted/)
      expect(Buffer.byteLength(JSON.stringify(line))).toBeLessThan(40_000)
    }
    const file = path.join(running.artifactRoot, 'r1', 'diagnostics.json')
    const { failures } = JSON.parse(await readFile(file, 'utf8')) as {
      failures: { message: string }[]
    }
    expect(isCut(failures[0]?.message ?? '', 65_536)).toBe(true)
  })

  it('is also cut for a grader, and in a fetched result', { tags: 'slow' }, async () => {
    await using running = await startServer({
      grader: graderOf(() => Promise.reject(new Error(longMessage))),
    })
    await running.post({ llm_api_key: key })
    const [, grading] = await running.controller.bodies()
    expect(isCut(errorOf(grading), 8192)).toBe(true)

    const client = new LeaseClient({ url: running.url })
    const {
      completion_callback_url: _,
      grader_callback_url: __,
      ...body
    } = running.controller.rolloutBody()
    const lease = await client.start({
      ...body,
      rollout_id: 'leased',
      llm_api_key: key,
      grade: true,
    })
    expect(isCut(errorOf(await lease.until()), 8192)).toBe(true)
  })
})

it('is cut at the limit when it contains a key of that length', async () => {
  await using running = await startServer({
    workflow: workflowOf(() => Promise.reject(new Error('x'.repeat(20_000)))),
  })
  await running.post({ llm_api_key: 'k'.repeat(16_384) })
  const [completion] = await running.controller.bodies()
  expect(errorOf(completion)).toMatch(/: x{7900,}… \[cut: \d+ characters in all\]$/)
})

it.each([
  ['user code has cut', `the answer 😀 has no number: ${'😀'.slice(0, 1)}`],
  ['is cut here', '😀'.repeat(5000)],
  ['is cut here, between other characters', `.${'😀'.repeat(5000)}`],
])('an error message that %s has only whole characters', async (_, message) => {
  await using running = await startServer({
    workflow: workflowOf(() => Promise.reject(new Error(message))),
  })
  await running.post()
  for (const body of await running.controller.bodies()) {
    expect(errorOf(body)).toContain('😀')
    expect(errorOf(body).isWellFormed()).toBe(true)
  }
  expect(errorOf(await statusOf(running, 'r1')).isWellFormed()).toBe(true)
})

const everything: unknown[] = []
for (let n = 0; n < 3000; n += 1) everything.push(everything)

describe('an error with very much data', () => {
  it.each([
    ['bytes', { body: new Uint8Array(tenMegabytes) }],
    ['a list', Array.from({ length: 1_000_000 }, (_, n) => `item ${n}`)],
    ['fields', Object.fromEntries(Array.from({ length: 100_000 }, (_, n) => [`field ${n}`, n]))],
    ['itself, thousands of times', everything],
    ['a field with a long name', { [longMessage]: 1 }],
  ])('as %s fails its rollout, and costs one short line', async (_, cause) => {
    const error = new Error('too much', { cause })
    await using running = await startServer({ workflow: workflowOf(() => Promise.reject(error)) })
    await running.post({ llm_api_key: key })
    const [completion] = await running.controller.bodies()

    expect(errorOf(completion)).toMatch(/^thrown by run\(\) at \S+:\d+: too much$/)
    const lines = running.log.filter(({ message }) =>
      /^workflow failed: .*: too much$/.test(message),
    )
    expect(lines).toHaveLength(1)
    expect(lines[0]?.fields).toMatchObject({ rollout_id: 'r1', error: { message: 'too much' } })
    expect(Buffer.byteLength(JSON.stringify(lines[0]))).toBeLessThan(40_000)
    expect(JSON.stringify(lines[0])).not.toMatch(/planted/)
  })
})
