import { spawnSync } from 'node:child_process'
import { globSync } from 'node:fs'
import path from 'node:path'

import { expect, it } from 'vitest'

import { settingRules } from '../../packages/agent-loop/src/rollout-settings.ts'
import { configRules, type SectionRule } from '../../packages/eval/src/config/config-rules.ts'
import {
  policySchema,
  priceSchema,
  queueSchema,
} from '../../packages/eval/src/config/workspace-config.ts'
import { documents, read, root, section, tableColumn } from './documents.ts'

const page = read('docs/reference/configuration.md')

const sections = (['eval', 'training'] as const).flatMap((kind) =>
  Object.entries<SectionRule>(configRules[kind]).map(([name, { keys }]) => ({ kind, name, keys })),
)

it.each(sections)('the page has the keys of [$name] of $kind configs', ({ kind, name, keys }) => {
  const configs = section(page, kind === 'eval' ? 'Eval configs' : 'Training configs')
  // What both kinds have is described once, and named by the other.
  const own = section(configs, `\`[${name}]\``)
  const described = own || section(section(page, 'Eval configs'), `\`[${name}]\``)
  expect(configs).toContain(`\`[${name}]\``)
  expect(tableColumn(described)).toEqual(typeof keys === 'object' ? Object.keys(keys) : [])
})

it('the page has the keys of osmosis.toml', () => {
  const file = section(page, '`osmosis.toml`')
  expect(tableColumn(section(file, 'Top'))).toEqual(['default_policy'])
  expect(tableColumn(section(file, '`[policies.<name>]`'))).toEqual(Object.keys(policySchema.shape))
  expect(tableColumn(section(file, '`[prices."<model>"]`'))).toEqual(Object.keys(priceSchema.shape))
  expect(tableColumn(section(file, '`[queue]`'))).toEqual(Object.keys(queueSchema.shape))
})

it('the page has the variables that the packages read, and no others', () => {
  const sources = globSync('packages/*/src/**/*.ts', { cwd: root })
  const names = sources.flatMap((file) =>
    [
      ...read(file).matchAll(
        /\b_?OSMOSIS(?:_[A-Z\d]+)+\b(?!_)|\bROLLOUT_PORT\b|\bTINKER_API_KEY\b|\bOTEL(?:_[A-Z]+)+\b/g,
      ),
    ].map(String),
  )
  const ofSettings = new Set(settingRules.map(({ variable }) => variable))
  const others = new Set(names.filter((name) => !ofSettings.has(name)))
  expect(tableColumn(section(page, 'Environment variables')).toSorted()).toEqual(
    [...others].toSorted(),
  )
})

it('the guide of agent loops has all settings, their variables, defaults and ranges', () => {
  const settings = section(read('docs/guides/agent-loop.md'), 'Settings')
  expect(tableColumn(settings)).toEqual(settingRules.map(({ name }) => name))
  expect(tableColumn(settings, 1)).toEqual(settingRules.map(({ variable }) => variable))
})

it('the page has the commands and flags that there are', () => {
  const script = path.join(root, 'scripts/flag-tables.ts')
  expect(spawnSync(process.execPath, [script], { encoding: 'utf8' })).toMatchObject({
    stderr: '',
    status: 0,
  })
})

it('no other page has a table of flags that could differ', () => {
  expect(documents.filter((document) => /^\| flag /m.test(read(document)))).toEqual([])
})
