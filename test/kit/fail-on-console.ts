import assert from 'node:assert/strict'

import { afterEach, beforeEach, vi } from 'vitest'

const methods = ['debug', 'error', 'info', 'log', 'warn'] as const
const written: unknown[][] = []

beforeEach(() => {
  for (const method of methods) {
    vi.spyOn(console, method).mockImplementation((...args) => void written.push([method, ...args]))
  }
})

afterEach(() => {
  vi.restoreAllMocks()
  assert.deepEqual(
    written.splice(0),
    [],
    'a test wrote to the console: switch off the log of what it runs, or mock the method and expect the line',
  )
})
