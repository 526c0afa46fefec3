import { expect, it } from 'vitest'

import { temporaryFolder } from '../osmosis.ts'
import { startInTerminal, type TerminalSession } from '../pseudo-terminal.ts'
import { platformUser, type PlatformUser } from './on-platform.ts'

/** Runs a command where the user is, without a browser that would open. */
function inTerminal({ env, workspace }: PlatformUser, words: string): TerminalSession {
  const here = { ...env, PATH: temporaryFolder() }
  return startInTerminal(words.split(' '), { env: here, cwd: workspace })
}

it('Ctrl-C ends the wait for a login, with 130', async () => {
  const user = await platformUser({ loggedIn: false })
  user.platform.login.polls = Array.from({ length: 10_000 }, () => 'authorization_pending' as const)
  const session = inTerminal(user, 'auth login')
  await session.until('WDJB-MJHT')
  session.type('\u0003')
  expect((await session.ended).code).toBe(130)
})
