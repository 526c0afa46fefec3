import { expect, it } from 'vitest'

import { json, platformUser } from './on-platform.ts'

const value = 'planted-secret-value'

it('keeps, lists and forgets a secret, and never shows its value', async () => {
  const { platform, osmosis } = await platformUser()
  const env = { SEARCH_KEY: value }
  const set = await osmosis('secret set SEARCH_API_KEY --from-env SEARCH_KEY --json', env)
  expect(json(set.stdout)).toMatchObject({
    status: 'success',
    operation: 'secret.set',
    resource: { name: 'SEARCH_API_KEY', scope: 'personal' },
  })
  expect(platform.secrets).toEqual([{ name: 'SEARCH_API_KEY', scope: 'user', value }])

  const list = await osmosis('secret list --json')
  expect(json(list.stdout)).toMatchObject({
    items: [{ name: 'SEARCH_API_KEY', scope: 'personal' }],
    total_count: 1,
  })
  expect(platform.requests.at(-1)?.query.get('scope')).toBe('all')
  const asked = await osmosis('secret delete SEARCH_API_KEY --json')
  expect(json(asked.stderr)).toMatchObject({ error: { code: 'INTERACTIVE_REQUIRED' } })
  expect((await osmosis('secret delete SEARCH_API_KEY --yes')).stdout).toBe(
    'Deleted the personal secret SEARCH_API_KEY.\n',
  )
  expect(platform.secrets).toEqual([])
  for (const { stdout, stderr } of [set, list, asked]) expect(stdout + stderr).not.toContain(value)
})

it("a private key does not become the workspace's", async () => {
  const { platform, osmosis } = await platformUser()
  const env = { KEY: value }
  expect((await osmosis('secret set A_KEY --env KEY', env)).stdout).toBe(
    'Stored the personal secret A_KEY.\n',
  )
  expect((await osmosis('secret set B_KEY --from-env KEY --scope user', env)).code).toBe(0)
  expect((await osmosis('secret set C_KEY --from-env KEY --scope workspace', env)).code).toBe(0)
  expect(platform.secrets.map(({ name, scope }) => [name, scope])).toEqual([
    ['A_KEY', 'user'],
    ['B_KEY', 'user'],
    ['C_KEY', 'workspace'],
  ])
  const shared = json((await osmosis('secret list --scope workspace --json')).stdout)
  expect(shared).toMatchObject({ items: [{ name: 'C_KEY' }], total_count: 1 })
})

it('deleting a missing secret fails before the question', async () => {
  const { platform, osmosis } = await platformUser()
  platform.secrets.push({ name: 'SHARED_KEY', scope: 'workspace', value })
  const other = await osmosis('secret delete SHARED_KEY --json')
  expect([other.code, json(other.stderr)]).toMatchObject([
    1,
    {
      error: {
        code: 'NOT_FOUND',
        message: expect.stringContaining(
          'osmosis platform secret delete SHARED_KEY --scope workspace',
        ),
      },
    },
  ])
  const none = await osmosis('secret delete NO_KEY --yes')
  expect([none.code, none.stderr]).toEqual([
    1,
    'error: The personal secret NO_KEY does not exist. List the existing secrets with osmosis platform secret list.\n',
  ])
  expect(platform.secrets).toHaveLength(1)
  // Where the list does not come, the platform finds out itself.
  platform.fail('GET environment-secrets', { status: 500 })
  expect((await osmosis('secret delete SHARED_KEY --scope workspace --yes')).code).toBe(0)
})

it('hides the value when the platform repeats it', async () => {
  const { platform, osmosis } = await platformUser()
  const body = { message: `Bad: ${value}`, issues: [{ key: 'value', message: value }] }
  platform.fail('POST environment-secrets', { status: 400, body })
  const { code, stderr } = await osmosis('secret set A_KEY --from-env KEY --json', { KEY: value })
  expect([code, stderr]).toEqual([1, expect.stringContaining('Bad: [redacted]')])
  expect(stderr).not.toContain(value)
})

it.each([
  'secret set lower --from-env KEY',
  'secret set _OSMOSIS_KEY --from-env KEY',
  'secret set A_KEY --from-env NOT_SET',
  'secret set A_KEY --from-env KEY --scope world',
])('%s is wrong use', async (words) => {
  const { platform, osmosis } = await platformUser()
  expect((await osmosis(words, { KEY: value })).code).toBe(2)
  expect(platform.calls).toEqual([])
})
