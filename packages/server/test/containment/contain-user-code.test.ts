import { execFile } from 'node:child_process'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

import { describe, expect, it } from 'vitest'

const script = fileURLToPath(new URL('contained-process.ts', import.meta.url))
const cwd = path.dirname(script)

type Line = Record<string, unknown>

/** The lines of `contained-process.ts`. */
async function contained(phase: string): Promise<Line[]> {
  const { stdout } = await promisify(execFile)(process.execPath, [script, phase], { cwd })
  return stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Line)
}

const place = String.raw`\(at [\w-]+\.ts:\d+:\d+\)`
const exits = {
  'process.exit': 'process.exit(0)',
  'exit imported by name': 'process.exit(3)',
  'exit in a timer': 'process.exit()',
  'exit that is caught': 'process.exit(0)',
}
const thrown = [
  'setTimeout',
  'setImmediate',
  'nextTick',
  'file',
  'queueMicrotask',
  'event emitter',
  'error event without a listener',
  'socket',
  'response of a request',
  'listener of the deadline',
  'all listeners removed',
  'response on a connection of others',
  'callback on a connection of others',
]
const rejected = ['rejected promise', 'rejected async function', 'promise that a timer rejects']

describe.each(['workflow', 'grader'])('user code of a %s that harms the process', (part) => {
  it('fails only its own rollout, with what it did and where, and the process continues', async () => {
    const lines = await contained(part)

    const failed = lines.filter(({ status }) => status === 'failure')
    const messages = Object.fromEntries(failed.map(({ id, message }) => [id, message]))
    const where = (text: string): unknown =>
      expect.stringMatching(
        new RegExp(`^${text.replaceAll(/[()]/g, String.raw`\$&`)} ${place}$`),
      ) as unknown
    const threw = `the ${part} threw an uncaught error`
    const left = `the ${part} left a rejection unhandled`
    expect(messages).toStrictEqual({
      ...Object.fromEntries(
        Object.entries(exits).map(([id, call]) => [id, where(`the ${part} called ${call}`)]),
      ),
      ...Object.fromEntries(thrown.map((id) => [id, where(`${threw}: harm of ${id}`)])),
      ...Object.fromEntries(rejected.map((id) => [id, where(`${left}: harm of ${id}`)])),
      // Their stacks do not show where they come from.
      'thrown text': `${threw}: harm of thrown text`,
      'error without a readable stack': `${left}: harm of error without a readable stack`,
      'request that breaks on a connection of others': `${left}: fetch failed`,
    })
    expect(new Set(failed.map(({ category }) => category))).toStrictEqual(new Set(['agent_error']))
    expect(lines.filter(({ status }) => status === 'success')).toHaveLength(50)
    expect(lines.filter((line) => 'unattributed' in line || 'late' in line)).toStrictEqual([])
    expect(lines.at(-1)).toStrictEqual({ exit: 'exit' })
  })
})
