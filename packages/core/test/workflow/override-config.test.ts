import { defineWorkflowConfig } from '@osmosis/core'
import { overrideConfig, overridesText } from '@osmosis/core/workflow'
import { expect, it } from 'vitest'
import { z } from 'zod'

class Model {
  readonly name = 'model'
}

const config = defineWorkflowConfig({
  name: 'search',
  maxIterations: 10,
  prompt: 'short',
  verbose: false,
  tags: ['a'],
  search: { limit: 5, url: 'http://one' },
  model: new Model(),
  metadata: z.object({ id: z.string() }),
  rolloutLimits: { modelCalls: 5 },
})

it.each([
  ['a text as a number', { max_iterations: '8' }, { maxIterations: 8 }],
  ['the name as it is', { maxIterations: 8 }, { maxIterations: 8 }],
  ['a text that looks like a number', { prompt: '8' }, { prompt: '8' }],
  ['a text in quotes', { prompt: '"8"' }, { prompt: '8' }],
  ['true', { verbose: 'true' }, { verbose: true }],
  ['a list', { tags: '["b","c"]' }, { tags: ['b', 'c'] }],
  ['a path', { 'search.limit': '6' }, { search: { limit: 6, url: 'http://one' } }],
  ['a table', { search: { limit: 6 } }, { search: { limit: 6, url: 'http://one' } }],
  ['several fields', { 'search.limit': 1, 'search.url': 'b' }, { search: { limit: 1, url: 'b' } }],
  [
    'a limit that the config does not have',
    { rollout_limits: { total_tokens: 9 } },
    { rolloutLimits: { modelCalls: 5, totalTokens: 9 } },
  ],
  ['concurrency', { 'concurrency.max_concurrent': '3' }, { concurrency: { maxConcurrent: 3 } }],
])('takes %s', (_, values, changed) => {
  const set = overrideConfig(config, values)
  expect(set).toEqual({ ...config, ...changed })
  expect(set?.model).toBe(config.model)
  expect(config.maxIterations).toBe(10)
})

it.each([
  [
    { iterations: 8 },
    'The config of the workflow has no field iterations: it has name, maxIterations, prompt, verbose, tags, search, model, metadata, rolloutLimits.',
  ],
  [{ 'search.size': 8 }, 'has no field search.size: it has limit, url.'],
  [
    { max_iterations: 'many' },
    'maxIterations of the workflow\'s config must be a number, got "many".',
  ],
  [{ prompt: 8 }, "prompt of the workflow's config must be a text, got 8."],
  [{ verbose: 'no' }, 'must be true or false, got "no".'],
  [{ tags: 'b' }, 'must be a list, got "b".'],
  [{ search: 3 }, "search of the workflow's config must be a table of its fields, got 3."],
  [{ model: 'gpt' }, "model of the workflow's config cannot be set"],
  [{ metadata: {} }, "metadata of the workflow's config cannot be set"],
  [{ 'prompt.x': 1 }, "prompt of the workflow's config has no fields."],
  [
    { 'concurrency.max_concurrent': 0 },
    'concurrency.maxConcurrent of "search" must be a whole number',
  ],
])('refuses %j', (values, message) => {
  expect(() => overrideConfig(config, values)).toThrow(
    expect.objectContaining({ code: 'invalid_config', message: expect.stringContaining(message) }),
  )
})

it('needs a config', () => {
  expect(overrideConfig(undefined, {})).toBeUndefined()
  expect(() => overrideConfig(undefined, { a: 1 })).toThrow('The workflow has no config')
})

it.each<[string, object, object, boolean]>([
  ['snake_case', { max_turns: 8 }, { maxTurns: 8 }, true],
  ['a text that is a number', { max_turns: '8' }, { maxTurns: 8 }, true],
  ['a path', { 'search.max_hits': 1 }, { search: { maxHits: 1 } }, true],
  ['another order', { a: 1, b: 'x' }, { b: 'x', a: 1 }, true],
  ['a list', { tags: '["a","b"]' }, { tags: ['a', 'b'] }, true],
  ['another value', { max_turns: 8 }, { max_turns: 9 }, false],
  ['another field', { max_turns: 8 }, { max_tokens: 8 }, false],
  ['a field more', { a: 1 }, { a: 1, b: 2 }, false],
  ['another order of a list', { tags: ['a', 'b'] }, { tags: ['b', 'a'] }, false],
  ['nothing', {}, { a: 1 }, false],
])('says of %s whether it is the same', (_, one, other, isSame) => {
  const [a, b] = [overridesText({ ...one }), overridesText({ ...other })]
  expect(a === b).toBe(isSame)
})
