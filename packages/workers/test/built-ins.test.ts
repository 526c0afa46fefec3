import { setImmediate } from 'node:timers/promises'

import { expect, it, vi } from 'vitest'

import { BuiltIns } from '../src/child/built-ins.ts'

it('accepts a built-in that was replaced by another one that works', async () => {
  const { then } = Promise.prototype // oxlint-disable-line typescript/unbound-method -- called on each
  // oxlint-disable-next-line unicorn/no-thenable, no-extend-native -- as libraries that follow promises do
  Promise.prototype.then = function followed(this: Promise<unknown>, ...args: []) {
    return then.apply(this, args)
  } as typeof then
  try {
    const builtIns = new BuiltIns()
    expect(builtIns.findBroken()).toBeUndefined()
    await setImmediate()
    expect(builtIns.findBroken()).toBeUndefined()
  } finally {
    // oxlint-disable-next-line unicorn/no-thenable, no-extend-native -- as it was
    Promise.prototype.then = then
  }
})

it.each([
  ['answers wrongly', () => vi.spyOn(JSON, 'parse').mockReturnValue({}), 'JSON.parse'],
  [
    'throws',
    () =>
      vi.spyOn(Object, 'entries').mockImplementation(() => {
        throw new Error('broken')
      }),
    'Object.entries',
  ],
])('finds a built-in that %s', (_, breakIt, name) => {
  const spy = breakIt()
  const broken = new BuiltIns().findBroken()
  spy.mockRestore()
  expect(broken).toBe(name)
})
