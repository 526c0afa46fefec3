import { expect, it } from 'vitest'

import { temporaryFolder } from '../../../../test/kit/index.ts'
import { runWithin } from '../../src/command/command-context.ts'
import { readPlatformSettings, type PlatformSettings } from '../../src/platform/client/settings.ts'

/** Reads the settings as a command does that is called in a folder with these variables. */
async function settingsIn(
  cwd: string,
  env: Record<string, string>,
  platform?: string,
): Promise<PlatformSettings> {
  const read = Promise.withResolvers<PlatformSettings>()
  await runWithin({ cwd, env }, async () => {
    read.resolve(readPlatformSettings({ platform }))
    return 0
  })
  return read.promise
}

const url = async (platform: string): Promise<string> =>
  (await settingsIn(await temporaryFolder(), {}, platform)).url

it.each([
  [' HTTPS://Platform.Example:443/ ', 'https://platform.example'],
  ['https://platform.example/base//?query=1#fragment', 'https://platform.example/base'],
  ['platform.example', 'https://platform.example'],
  ['platform.example:8443', 'https://platform.example:8443'],
  ['localhost:8000', 'http://localhost:8000'],
  ['127.0.0.1:80', 'http://127.0.0.1'],
  ['http://[::1]:9000/', 'http://[::1]:9000'],
])('the platform %s is %s', async (given, normalized) => {
  expect(await url(given)).toBe(normalized)
})

it.each(['ftp://platform.example', 'http://platform.example', 'https://a:b@host', 'http://', ' '])(
  'the platform %j is refused',
  async (given) => {
    await expect(url(given)).rejects.toMatchObject({ platformCode: 'VALIDATION' })
  },
)

it('plain HTTP to another machine has to be allowed', async () => {
  const env = { OSMOSIS_ALLOW_INSECURE_PLATFORM_URL: '1' }
  const settings = await settingsIn(await temporaryFolder(), env, 'http://platform.example/')
  expect(settings.url).toBe('http://platform.example')
})

it('the nearest .env upward gives what the environment lacks', async () => {
  const folder = await temporaryFolder({
    '.env': 'OSMOSIS_PLATFORM_URL=https://far.example\nFAR=1\n',
    'inner/.env': 'OSMOSIS_PLATFORM_URL="https://near.example"\nGIVEN=file\n',
    'inner/deep/file': '',
  })
  const { url: found, environment } = await settingsIn(`${folder}/inner/deep`, { GIVEN: 'process' })
  expect(found).toBe('https://near.example')
  expect(environment).toMatchObject({ GIVEN: 'process' })
  expect(environment).not.toHaveProperty('FAR')
})
