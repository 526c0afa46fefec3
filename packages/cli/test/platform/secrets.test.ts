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
    resource: { name: 'SEARCH_API_KEY', scope: 'workspace' },
  })
  expect(platform.secrets).toEqual([{ name: 'SEARCH_API_KEY', scope: 'workspace', value }])

  const list = await osmosis('secret list --json')
  expect(json(list.stdout)).toMatchObject({
    items: [{ name: 'SEARCH_API_KEY', scope: 'workspace' }],
    total_count: 1,
  })
  expect(platform.requests.at(-1)?.query.get('scope')).toBe('all')
  const asked = await osmosis('secret delete SEARCH_API_KEY --json')
  expect(json(asked.stderr)).toMatchObject({ error: { code: 'INTERACTIVE_REQUIRED' } })
  expect((await osmosis('secret delete SEARCH_API_KEY --yes')).stdout).toBe(
    'The workspace has no secret SEARCH_API_KEY any more.\n',
  )
  expect(platform.secrets).toEqual([])
  for (const { stdout, stderr } of [set, list, asked]) expect(stdout + stderr).not.toContain(value)
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
  ['secret set lower --from-env KEY', 1],
  ['secret set _OSMOSIS_KEY --from-env KEY', 1],
  ['secret set A_KEY --from-env NOT_SET', 1],
  ['secret set A_KEY --from-env KEY --scope world', 2],
])('%s is refused with %d', async (words, exitCode) => {
  const { platform, osmosis } = await platformUser()
  expect((await osmosis(words, { KEY: value })).code).toBe(exitCode)
  expect(platform.calls).toEqual([])
})
