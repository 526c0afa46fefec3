import { contractRules } from '@osmosis/testing'
import { expect, it } from 'vitest'

import { read, section, tableColumn } from './documents.ts'

const tables = [
  ['docs/guides/workflows.md', 'The context', 'core', ['AgentWorkflowContext']],
  ['docs/guides/workflows.md', 'The config', 'core', ['BaseConfig', 'BaseWorkflowConfig']],
  ['docs/guides/graders.md', 'The context', 'core', ['GraderContext']],
  ['docs/guides/graders.md', 'What a sample is', 'core', ['RolloutSample']],
  [
    'docs/reference/server.md',
    'Options of `createRolloutServer`',
    'server',
    [
      'LifeHooks',
      'PortRouteOptions',
      'RolloutProtocolOptions',
      'RolloutServerOptions',
      'ServerShellOptions',
    ],
  ],
] as const

it.each(tables)('the table of %s, %s, has every field and no other', (...table) => {
  const [document, heading, entry, interfaces] = table
  const report = read(`packages/${entry}/api/index.api.md`)
  const fields = interfaces.flatMap((name) => fieldsOf(report, name))
  expect(tableColumn(section(read(document), heading)).toSorted()).toEqual(fields.toSorted())
})

it('the page about adapters has every rule of the contract', () => {
  const rules = section(read('docs/contributing/write-an-adapter.md'), 'The rules')
  expect(tableColumn(rules)).toEqual(Object.keys(contractRules))
})

/** The fields of an interface in a report of the API. */
function fieldsOf(report: string, name: string): string[] {
  const [, body = ''] =
    new RegExp(`interface ${name}\\b[^{]*\\{\\n([^]*?)\\n\\}`).exec(report) ?? []
  return [...body.matchAll(/^ {4}(?:readonly )?(\w+)[?:(]/gm)].map(([, field = '']) => field)
}
