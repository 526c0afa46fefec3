import { readFile } from 'node:fs/promises'
import path from 'node:path'

import { expect, it } from 'vitest'

import { temporaryFolder } from '../../../../test/kit/index.ts'
import { CredentialsFile } from '../../src/platform/auth/credentials-file.ts'

const hosted = 'https://platform.osmosis.ai'
const other = 'https://other.example'
const record = { access_token: 'the-token', expires_at: '2999-01-01T00:00:00Z', user: { id: '1' } }

async function fileWith(credentials: unknown): Promise<CredentialsFile> {
  const folder = await temporaryFolder({ 'credentials.json': JSON.stringify(credentials) })
  return new CredentialsFile(path.join(folder, 'credentials.json'))
}

it.each<[string, unknown]>([
  ['one record for each platform', { version: 2, platforms: { [hosted]: record } }],
  ['one record for all', record],
  ['one for each workspace', { version: 1, active_workspace: 'a', workspaces: { a: record } }],
])('reads %s', async (_, credentials) => {
  const file = await fileWith(credentials)
  expect(await file.find(hosted)).toMatchObject({ token: 'the-token', store: 'file' })
  // A login without a platform is not sent to another one.
  expect(await file.find(other)).toBeUndefined()
})

it('a new login for another platform keeps the older record', async () => {
  const file = await fileWith(record)
  const login = { token: 'new', expiresAt: record.expires_at, user: {}, tokenId: 'i' } as const
  await file.save(other, { ...login, store: 'file', account: undefined })
  expect(await file.find(hosted)).toMatchObject({ token: 'the-token' })
  expect(await file.find(other)).toMatchObject({ token: 'new', tokenId: 'i' })
  expect(JSON.parse(await readFile(file.path, 'utf8'))).toMatchObject({ version: 2 })
})

it('records of others stay as they are', async () => {
  const theirs = { ...record, future: ['key'] }
  const file = await fileWith({ version: 2, platforms: { [hosted]: record, [other]: theirs } })
  await file.remove(hosted)
  expect(JSON.parse(await readFile(file.path, 'utf8'))).toStrictEqual({
    version: 2,
    platforms: { [other]: theirs },
  })
})

it.each([{ version: 3, platforms: {} }, { version: '3' }])(
  'a file of a newer version is neither read nor changed: %j',
  async (credentials) => {
    const file = await fileWith(credentials)
    const refused = {
      platformCode: 'CREDENTIALS_VERSION_CHANGED',
      message: expect.stringMatching(
        /its version is (3|no number), and this command reads 1 and 2/,
      ),
    }
    await expect(file.find(hosted)).rejects.toMatchObject(refused)
    await expect(file.removeUnreadable(hosted)).rejects.toMatchObject(refused)
    expect(JSON.parse(await readFile(file.path, 'utf8'))).toStrictEqual(credentials)
  },
)

const broken = { access_token: 'the-token' }

it.each<[string, unknown]>([
  ['an empty object', {}],
  ['no platforms', { version: 2 }],
  ['platforms without their version', { platforms: { [hosted]: record } }],
  ['a broken record', { version: 2, platforms: { [hosted]: broken } }],
  ['a broken record for all', broken],
  [
    'a broken record of a workspace',
    { version: 1, active_workspace: 'a', workspaces: { a: broken } },
  ],
])('a login can be saved again where a file has %s', async (_, credentials) => {
  const file = await fileWith(credentials)
  await expect(file.find(hosted)).rejects.toMatchObject({
    platformCode: 'CREDENTIALS_PARSE_FAILED',
  })
  const copy = await file.removeUnreadable(hosted)
  expect(JSON.parse(await readFile(copy ?? '', 'utf8'))).toStrictEqual(credentials)
  expect(await file.find(hosted)).toBeUndefined()
  const login = { token: 'new', expiresAt: record.expires_at, user: {}, tokenId: 'i' } as const
  await file.save(hosted, { ...login, store: 'file', account: undefined })
  expect(await file.find(hosted)).toMatchObject({ token: 'new' })
})

it('a broken record costs no login of another platform', async () => {
  const file = await fileWith({ version: 2, platforms: { [hosted]: broken, [other]: record } })
  expect(await file.removeUnreadable(other)).toBeUndefined()
  expect(await file.removeUnreadable(hosted)).toBe(`${file.path}.bak`)
  expect(await file.find(hosted)).toBeUndefined()
  expect(await file.find(other)).toMatchObject({ token: 'the-token' })
})

it('a login for another platform can be saved beside a broken record of an older format', async () => {
  const file = await fileWith(broken)
  expect(await file.removeUnreadable(other)).toBe(`${file.path}.bak`)
  expect(await file.find(other)).toBeUndefined()
})
