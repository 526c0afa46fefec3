import { readFile } from 'node:fs/promises'
import path from 'node:path'

import { CredentialsFile } from '../../src/platform/auth/credentials-file.ts'
import { temporaryFolder } from '../../../../test/kit/index.ts'
import { expect, it } from 'vitest'

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

it('a file of a newer version is neither read nor moved', async () => {
  const file = await fileWith({ version: 3, platforms: {} })
  const refused = { platformCode: 'CREDENTIALS_VERSION_CHANGED' }
  await expect(file.find(hosted)).rejects.toMatchObject(refused)
  await expect(file.moveCorrupt()).rejects.toMatchObject(refused)
})
