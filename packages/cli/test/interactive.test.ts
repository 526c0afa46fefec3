import { describe, expect, it } from 'vitest'

import { startInTerminal } from './pseudo-terminal.ts'

const command =
  'test -m rollouts/agent-loops/adder.ts:agentLoop -d data/sums.jsonl --policy policies/adding.ts --interactive'.split(
    ' ',
  )
const select = "Select a row to test [0-3] or 'q' to quit: "
const commands = 'Commands: [n]ext, [c]ontinue, [m]essages, [t]ools, [q]uit\n'

describe('osmosis test --interactive, in a terminal', () => {
  it('steps through the model calls of a row', { tags: 'slow' }, async () => {
    const session = startInTerminal(command)
    await session.until(select)
    session.type('0\n')
    expect(await session.until(`${commands}> `)).toBe(
      `0\n\nRow 0\nTools:\n  add: Add two numbers\n[user] 2 and 3\n\n--- Turn 1 ---\n[assistant] calls add({"a": 2, "b": 3})\n${commands}> `,
    )
    session.type('\n')
    expect(await session.until(`${commands}> `)).toBe(
      `\n[tool add] 5\n\n--- Turn 2 ---\n[assistant] 5\n${commands}> `,
    )
    session.type('m\n')
    expect(await session.until('> ')).toBe(
      'm\n[user] 2 and 3\n[assistant] calls add({"a": 2, "b": 3})\n[tool add] 5\n[assistant] 5\n> ',
    )
    session.type('next\n')
    const end = await session.until('[m]essages, or Enter to continue: ')
    expect(end.replace(/\d+ ms|[\d.]+ s/, 'T')).toBe(
      'next\n\n[1/1] Row 0: OK (T, 28 tokens, reward 1)\nFinish reason: stop\n[m]essages, or Enter to continue: ',
    )
    session.type('m\n')
    expect(await session.until(select)).toContain('[user] 2 and 3\n[assistant] calls add')
    session.type('q\n')
    expect(await session.ended).toEqual({ code: 0, rest: 'q\nInteractive session ended.\n' })
  })

  it('leaves a row on q, and on Ctrl-C the whole session', { tags: 'nightly' }, async () => {
    const session = startInTerminal([...command, '--row', '0'])
    await session.until('> ')
    session.type('q\n')
    expect(await session.until(select)).toMatch(/Row 0: FAILED \(.*\) - Aborted by user\n/)
    session.type('0\n')
    await session.until('> ')
    session.type('\u0003')
    expect((await session.ended).code).toBe(0)
  })
})

describe('osmosis test --interactive, in a terminal', { tags: 'slow' }, () => {
  it('continues without stops, starts with the row of the flag, and explains its commands', async () => {
    const session = startInTerminal([...command, '--row', '3'])
    await session.until('[system] Add.\n[user] 1 and 1\n')
    await session.until('> ')
    session.type('what\n')
    expect(await session.until('> ')).toBe(`what\nUnknown command: what\n${commands}> `)
    session.type('t\n')
    expect(await session.until('> ')).toBe('t\nTools:\n  add: Add two numbers\n> ')
    session.type('c\n')
    expect(await session.until('Finish reason: stop\n')).toContain(
      '--- Turn 2 ---\n[assistant] 2\n',
    )
    session.type('\n')
    await session.until(select)
    session.type('9\n')
    expect(await session.until(select)).toBe(`9\nInvalid row index: 9. Valid range: 0-3\n${select}`)
    session.type('x\n')
    expect(await session.until(select)).toBe(
      `x\nPlease enter a valid row number or 'q' to quit.\n${select}`,
    )
    session.type('\u0004')
    expect((await session.ended).code).toBe(0)
  })

  it('shows a policy that fails', async () => {
    const session = startInTerminal([...command, '--row', '1'])
    expect(await session.until('> ')).toContain(
      '--- Turn 1 ---\nThe policy answered 500: {"error":{"message":"no two numbers"',
    )
    session.type('q\n')
    await session.until(select)
    session.type('q\n')
    expect((await session.ended).code).toBe(0)
  })
})
