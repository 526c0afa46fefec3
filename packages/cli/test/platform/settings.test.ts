import { expect, it } from 'vitest'

import { temporaryFolder } from '../../../../test/kit/index.ts'
import { run, workIn } from '../in-process.ts'
import { json } from './on-platform.ts'

/** What `whoami` answers a user without a login: the platform of the login that it lacks, or the code of a refusal. */
async function platformOf(
  env: Record<string, string>,
  flags: readonly string[] = [],
): Promise<string> {
  const own = { HOME: await temporaryFolder(), OSMOSIS_TOKEN_STORE: 'file', ...env }
  const { code, stderr } = await run(['platform', 'whoami', '--json', ...flags], own)
  const { error } = json(stderr) as { error: { code: string; message: string } }
  if (error.code !== 'AUTH_REQUIRED') return error.code
  expect(code).toBe(1)
  return / has no login for (\S+)\. Log in/.exec(error.message)?.[1] ?? error.message
}

const flagged = async (platform: string, env = {}): Promise<string> => {
  workIn(await temporaryFolder())
  return platformOf(env, ['--platform', platform])
}

it.each([
  [' HTTPS://Platform.Example:443/ ', 'https://platform.example'],
  ['https://platform.example/base//?query=1#fragment', 'https://platform.example/base'],
  ['platform.example', 'https://platform.example'],
  ['platform.example:8443', 'https://platform.example:8443'],
  ['localhost:8000', 'http://localhost:8000'],
  ['127.0.0.1:80', 'http://127.0.0.1'],
  ['http://[::1]:9000/', 'http://[::1]:9000'],
])('the platform %s is %s', async (given, normalized) => {
  expect(await flagged(given)).toBe(normalized)
})

it.each(['ftp://platform.example', 'http://platform.example', 'https://a:b@host', 'http://', ' '])(
  'the platform %j is refused',
  async (given) => {
    expect(await flagged(given)).toBe('VALIDATION')
  },
)

it('plain HTTP to another machine has to be allowed', async () => {
  const env = { OSMOSIS_ALLOW_INSECURE_PLATFORM_URL: '1' }
  expect(await flagged('http://platform.example/', env)).toBe('http://platform.example')
})

it('the nearest .env upward gives what the environment lacks', async () => {
  // A store that is not known is refused where it is read.
  const unread = 'OSMOSIS_TOKEN_STORE=unread\n'
  const folder = await temporaryFolder({
    '.env': 'OSMOSIS_PLATFORM_URL=https://far.example\nOSMOSIS_ALLOW_INSECURE_PLATFORM_URL=1\n',
    'inner/.env': `OSMOSIS_PLATFORM_URL="https://near.example"\n${unread}`,
    'inner/deep/file': '',
  })
  workIn(`${folder}/inner/deep`)
  expect(await platformOf({})).toBe('https://near.example')
  expect(await platformOf({}, ['--platform', 'http://platform.example'])).toBe('VALIDATION')
  workIn(folder)
  expect(await platformOf({}, ['--platform', 'http://platform.example'])).toBe(
    'http://platform.example',
  )
  expect(await platformOf({ OSMOSIS_TOKEN_STORE: 'unread' })).toBe('VALIDATION')
})
