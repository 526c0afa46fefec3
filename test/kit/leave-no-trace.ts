import assert from 'node:assert/strict'

import { beforeAll, vi } from 'vitest'

// The test files of a project share a process, so what one leaves behind would affect the next.
const globals = ['Date', 'fetch', 'setImmediate', 'setInterval', 'setTimeout'] as const

function state(): Map<string, unknown> {
  return new Map<string, unknown>([
    ['working directory', process.cwd()],
    ['fake timers', vi.isFakeTimers()],
    ...globals.map((name) => [name, globalThis[name]] as const),
    ...Object.entries(process.env),
  ])
}

beforeAll(() => {
  const before = state()
  return () => {
    const after = state()
    const names = new Set([...before.keys(), ...after.keys()])
    // Names only: values of the environment may be secrets.
    const changed = [...names].filter((name) => before.get(name) !== after.get(name))
    assert.deepEqual(changed, [], 'a test file left a changed process behind')
  }
})
