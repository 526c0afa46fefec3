import { join } from 'node:path'

import { readWorkspaceConfig } from '@osmosis/eval'
import { describe, expect, it } from 'vitest'

import { temporaryFolder } from '../../../../test/kit/index.ts'
import { osmosisErrorOf } from '../thrown-by.ts'

describe('osmosis.toml', () => {
  it('names the policies of local runs, modules and endpoints, and the one to take', async () => {
    const root = await temporaryFolder({
      'osmosis.toml': `default_policy = "arithmetic"

[policies.arithmetic]
module = "policies/arithmetic.ts"

[policies.local]
base_url = "http://127.0.0.1:8000/v1"

[policies.hosted]
base_url = "https://models.example/v1"
model = "qwen"
api_key_env = "QWEN_KEY"
`,
    })
    const { policies, defaultPolicy } = await readWorkspaceConfig(root)
    expect([defaultPolicy, Object.fromEntries(policies)]).toEqual([
      'arithmetic',
      {
        arithmetic: {
          kind: 'module',
          module: 'policies/arithmetic.ts',
          file: join(root, 'policies/arithmetic.ts'),
        },
        local: {
          kind: 'endpoint',
          baseUrl: 'http://127.0.0.1:8000/v1',
          model: null,
          apiKeyEnv: null,
        },
        hosted: {
          kind: 'endpoint',
          baseUrl: 'https://models.example/v1',
          model: 'qwen',
          apiKeyEnv: 'QWEN_KEY',
        },
      },
    ])
  })

  it('names models of providers, and what models cost', async () => {
    const root = await temporaryFolder({
      'osmosis.toml': `[policies.mini]
model = "openai/gpt-5-mini"
api_key_env = "MINI_KEY"

[prices."openai/gpt-5-mini"]
input = 0.25
cached = 0.025
output = 2

[prices.qwen]
input = 1
output = 1
`,
    })
    const { policies, prices } = await readWorkspaceConfig(root)
    expect(policies.get('mini')).toEqual({
      kind: 'provider',
      model: 'openai/gpt-5-mini',
      apiKeyEnv: 'MINI_KEY',
    })
    expect(Object.fromEntries(prices)).toEqual({
      'openai/gpt-5-mini': { input: 0.25, cached: 0.025, output: 2 },
      qwen: { input: 1, cached: null, output: 1 },
    })
  })

  it('may be missing', async () => {
    const root = await temporaryFolder()
    expect(await readWorkspaceConfig(root)).toEqual({
      policies: new Map(),
      prices: new Map(),
      defaultPolicy: null,
      queue: null,
    })
  })

  it('names the queue of local evaluations', async () => {
    const root = await temporaryFolder({
      'osmosis.toml': `[queue]
redis = "rediss://redis.example:6380"
prefix = "team"
key_file = "secrets/queue-keys"
policy_host = "build.example"
`,
    })
    expect((await readWorkspaceConfig(root)).queue).toEqual({
      redis: 'rediss://redis.example:6380',
      prefix: 'team',
      keyFile: join(root, 'secrets/queue-keys'),
      policyHost: 'build.example',
    })
  })

  it.each([
    [
      'a policy that is empty',
      '[policies.a]',
      'policies.a: needs module (a file that answers), base_url (an endpoint that does) or a model of a provider, model = "<provider>/<model>"',
    ],
    ['a price without a part', '[prices.a]\ninput = 1', 'prices."a".output: missing'],
    [
      'a price below nothing',
      '[prices.a]\ninput = -1\noutput = 1',
      'prices."a".input: must be a number of US dollars per million tokens, got -1',
    ],
    [
      'a policy of two kinds',
      '[policies.a]\nmodule = "a.ts"\nmodel = "m"',
      'policies.a.model: cannot be combined with module; keep one of them',
    ],
    [
      'an endpoint that is not a URL, whose password is not shown',
      '[policies.a]\nbase_url = "htps://me:password@host"',
      'policies.a.base_url: must be an http or https URL, got string',
    ],
    [
      'a list of keys in place of the name of a variable, which are not shown',
      '[policies.a]\nmodel = "openai/gpt-5-mini"\napi_key_env = ["sk-proj-1"]',
      'policies.a.api_key_env: must be a non-empty string, got object',
    ],
    [
      'a model that is not text',
      '[policies.a]\nmodel = 5',
      'policies.a.model: must be a non-empty string, got 5',
    ],
    [
      'a misspelt key',
      '[policies.a]\nmodul = "a.ts"\n',
      'policies.a.modul: unknown key; did you mean module?',
    ],
    [
      'a name that looks like a file',
      '[policies."a.ts"]\nmodule = "a.ts"',
      'policies.a.ts: must be named in letters, digits, - and _',
    ],
    ['a queue without a Redis', '[queue]\nprefix = "team"', 'queue.redis: missing'],
    [
      'a queue that is not Redis',
      '[queue]\nredis = "http://localhost"',
      'queue.redis: is not of the form redis://host:6379, redis://user:password@host:6379/0, rediss:// for a Redis with TLS, or redis+sentinel://host:26379,host:26379/name for the primary that Sentinels know by a name, got string',
    ],
    [
      'a queue with a parameter, whose password is not shown',
      '[queue]\nredis = "redis://:pass/word@localhost?sentinels=a"',
      'queue.redis: has the parameter "sentinels", and takes none: write redis://host:6379, redis://user:password@host:6379/0, rediss:// for a Redis with TLS, or redis+sentinel://host:26379,host:26379/name for the primary that Sentinels know by a name, got string',
    ],
    [
      'a policy without a name',
      'policies = 3',
      'policies: must be a section for each policy, [policies.<name>]',
    ],
    [
      'an unknown section',
      '[policys.a]\nmodule = "a.ts"',
      'policys: unknown section; did you mean policies?',
    ],
    [
      'a default that is not there',
      'default_policy = "b"\n[policies.a]\nmodule = "a.ts"',
      'default_policy: must be the name of a policy (there is: a)',
    ],
  ])('is refused with %s', async (_name, toml, problem) => {
    const root = await temporaryFolder({ 'osmosis.toml': toml })
    expect(await osmosisErrorOf(() => readWorkspaceConfig(root))).toEqual({
      code: 'invalid_config',
      message: `Invalid ${join(root, 'osmosis.toml')}:\n- ${problem}`,
    })
  })
})
