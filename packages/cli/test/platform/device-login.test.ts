import { expect, it } from 'vitest'

import { PlatformStandIn } from '../../../../test/kit/index.ts'
import { loginByDevice } from '../../src/platform/auth/login-requests.ts'
import { clientOf } from './on-platform.ts'

/** Logs in at a platform and resolves with the seconds between the polls. */
async function logIn(
  platform: PlatformStandIn,
): Promise<{ pauses: number[]; outcome: Promise<unknown> }> {
  const { signal } = new AbortController()
  const pauses: number[] = []
  const outcome = loginByDevice(clientOf(platform), {
    deviceName: 'here',
    onCode: () => {},
    signal,
    pause: async (ms) => {
      pauses.push(ms / 1000)
    },
  })
  await outcome.catch(() => {})
  return { pauses, outcome }
}

it('polls more slowly each time the platform asks for it, up to half a minute', async () => {
  const platform = await PlatformStandIn.start()
  platform.login.interval = 5
  platform.login.polls = Array.from({ length: 6 }, () => 'slow_down' as const)
  const { pauses, outcome } = await logIn(platform)
  expect(pauses).toEqual([5, 10, 15, 20, 25, 30, 30])
  await expect(outcome).resolves.toMatchObject({ token: 'device-token-1', tokenId: 'device-1' })
})

it('gives up when the code has expired, after the polls that fit into its lifetime', async () => {
  const platform = await PlatformStandIn.start()
  platform.login.interval = 200
  platform.login.polls = Array.from({ length: 9 }, () => 'authorization_pending' as const)
  const { pauses, outcome } = await logIn(platform)
  expect(pauses).toEqual([200, 200, 200])
  await expect(outcome).rejects.toMatchObject({ platformCode: 'AUTH_REQUIRED' })
})

it.each([
  [426, 'UPGRADE_REQUIRED'],
  [429, 'RATE_LIMITED'],
  [503, 'PLATFORM_ERROR'],
])('ends when a poll is answered with %d', async (status, code) => {
  const platform = await PlatformStandIn.start()
  platform.fail('POST device/token', { status, body: { message: 'No.' } })
  const { outcome } = await logIn(platform)
  await expect(outcome).rejects.toMatchObject({ platformCode: code, message: 'No.' })
})

it('says so when a platform offers no such login', async () => {
  const platform = await PlatformStandIn.start()
  platform.fail('POST device/authorize', { status: 404 })
  const { outcome } = await logIn(platform)
  await expect(outcome).rejects.toMatchObject({ platformCode: 'PLATFORM_ERROR' })
})

it('a login that is not valid any more, or says no zone, is refused', async () => {
  const platform = await PlatformStandIn.start()
  for (const expiresAt of ['2020-01-01T00:00:00Z', '2999-01-01T00:00:00']) {
    platform.login.expiresAt = expiresAt
    const { outcome } = await logIn(platform)
    await expect(outcome).rejects.toMatchObject({ platformCode: 'PLATFORM_ERROR' })
  }
})

it('a login without an end lasts 90 days', async () => {
  const platform = await PlatformStandIn.start()
  platform.login.expiresAt = undefined
  const { outcome } = await logIn(platform)
  const { expiresAt } = (await outcome) as { expiresAt: string }
  const days = (Date.parse(expiresAt) - Date.now()) / 86_400_000
  expect(Math.round(days)).toBe(90)
})
