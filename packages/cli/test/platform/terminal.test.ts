import { expect, it } from 'vitest'

import { temporaryFolder } from '../osmosis.ts'
import { startInTerminal, type TerminalSession } from '../pseudo-terminal.ts'
import { platformUser, type PlatformUser } from './on-platform.ts'
import { author, entrypoint } from './submitted.ts'

/** Runs a command where the user is, without a browser that would open. */
function inTerminal({ env, workspace }: PlatformUser, words: string): TerminalSession {
  const here = { ...env, PATH: temporaryFolder() }
  return startInTerminal(words.split(' '), { env: here, cwd: workspace })
}

it(
  'somebody who logs in sees the code, and is logged in once it is allowed',
  { tags: 'slow' },
  async () => {
    const user = await platformUser({ loggedIn: false })
    user.platform.login.polls = ['authorization_pending']
    const session = inTerminal(user, 'auth login')
    await session.until('Open https://platform.example/device and enter the code WDJB-MJHT')
    const { code, rest } = await session.ended
    expect([code, rest]).toEqual([0, expect.stringContaining('Logged in to')])
    expect(rest).not.toContain('device-token')
  },
)

it(
  'a question is answered at the keyboard, and with no by an empty line',
  { tags: 'slow' },
  async () => {
    const user = await platformUser()
    const no = inTerminal(user, 'auth logout')
    await no.until('[y/N] ')
    no.type('\r')
    expect(await no.ended).toEqual({ code: 0, rest: expect.stringContaining('Still logged in.') })
    expect(user.platform.calls).toEqual([])

    const yes = inTerminal(user, 'auth logout')
    await yes.until('[y/N] ')
    yes.type('y\r')
    expect(await yes.ended).toEqual({ code: 0, rest: expect.stringContaining('Logged out') })
    expect(user.platform.calls).toEqual(['DELETE tokens/token-1'])
  },
)

it('Ctrl-C at a question ends with 130 and does nothing', async () => {
  const user = await platformUser()
  const session = inTerminal(user, 'auth logout')
  await session.until('[y/N] ')
  session.type('\u0003')
  expect((await session.ended).code).toBe(130)
  expect(user.platform.calls).toEqual([])
})

it('Ctrl-D at a question means no', { tags: 'slow' }, async () => {
  const user = await platformUser()
  const session = inTerminal(user, 'auth logout')
  await session.until('[y/N] ')
  session.type('\u0004')
  expect(await session.ended).toEqual({
    code: 0,
    rest: expect.stringContaining('Still logged in.'),
  })
  expect(user.platform.calls).toEqual([])
})

it.each(['\r', '\u0004'])(
  'no secret is stored without a value: %j',
  { tags: 'slow' },
  async (keys) => {
    const user = await platformUser()
    const session = inTerminal(user, '--workspace lab secret set SEARCH_API_KEY')
    await session.until('Value of SEARCH_API_KEY: ')
    session.type(keys)
    const { code, rest } = await session.ended
    expect([code, rest]).toEqual([2, expect.stringContaining('is empty: a secret needs a value.')])
    expect(user.platform.secrets).toEqual([])
  },
)

it('no run is submitted with a secret without a value', { tags: 'slow' }, async () => {
  const user = await author(entrypoint, ['SEARCH_API_KEY'])
  const words = ['eval', 'submit', 'configs/eval/echo.toml', '--yes']
  const session = startInTerminal(words, { env: user.env, cwd: user.workspace })
  await session.until('Value of SEARCH_API_KEY: ')
  session.type('\r')
  const { code, rest } = await session.ended
  expect([code, rest]).toEqual([
    2,
    expect.stringContaining('The value of SEARCH_API_KEY is empty: a secret needs a value.'),
  ])
  expect(user.platform.evalRuns.submitted).toEqual([])
})

it('a secret that is typed is not shown', { tags: 'slow' }, async () => {
  const user = await platformUser()
  // The origin of the workspace is not needed: this PATH has no git.
  const session = inTerminal(user, '--workspace lab secret set SEARCH_API_KEY')
  await session.until('Value of SEARCH_API_KEY: ')
  // Spaces belong to it.
  session.type('planted-secret-value \r')
  const { code, rest } = await session.ended
  expect([code, rest]).toEqual([
    0,
    expect.stringContaining('Stored the personal secret SEARCH_API_KEY'),
  ])
  expect(rest).not.toContain('planted')
  expect(user.platform.secrets).toMatchObject([{ value: 'planted-secret-value ' }])
})

it('Ctrl-C ends the wait for a login, with 130', { tags: 'slow' }, async () => {
  const user = await platformUser({ loggedIn: false })
  user.platform.login.polls = Array.from({ length: 10_000 }, () => 'authorization_pending' as const)
  const session = inTerminal(user, 'auth login')
  await session.until('WDJB-MJHT')
  session.type('\u0003')
  expect((await session.ended).code).toBe(130)
})
