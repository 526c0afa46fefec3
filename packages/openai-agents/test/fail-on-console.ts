import { afterEach, beforeEach, expect, vi } from 'vitest'

const methods = ['debug', 'error', 'info', 'log', 'warn'] as const
const written: unknown[][] = []

beforeEach(() => {
  for (const method of methods) {
    vi.spyOn(console, method).mockImplementation((...args) => void written.push([method, ...args]))
  }
})

afterEach(() => {
  vi.restoreAllMocks()
  expect(written.splice(0), 'console output of the test').toEqual([])
})
