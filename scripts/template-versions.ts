// Writes packages/create/templates/versions.json: the versions of the packages that new workspaces
// install. Ours are those of the manifests here, the others those of the catalogs.
//
//   node scripts/template-versions.ts           fail when the file is out of date
//   node scripts/template-versions.ts --update  rewrite it
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { parse } from 'yaml'

const root = path.resolve(import.meta.dirname, '..')
const file = path.join(root, 'packages/create/templates/versions.json')
const read = (name: string): string => readFileSync(path.join(root, name), 'utf8')

const { catalogs } = parse(read('pnpm-workspace.yaml')) as {
  catalogs: Record<'tools' | 'runtime' | 'frameworks', Record<string, string>>
}
/** Not installed here, because each has 370 MB and more. */
const programs = {
  '@anthropic-ai/claude-agent-sdk': '0.3.330',
  '@openai/codex-sdk': '0.163.0',
}
const ours = globSync('packages/*/package.json', { cwd: root }).map((manifest) => {
  const { name, version } = JSON.parse(read(manifest)) as { name: string; version: string }
  return [name, version] as const
})
const known = new Map([
  ...ours,
  ...[catalogs.tools, catalogs.runtime, catalogs.frameworks, programs].flatMap(
    Object.entries<string>,
  ),
])
const text = `${JSON.stringify(
  Object.fromEntries(
    Object.keys(JSON.parse(read('packages/create/templates/versions.json')) as object).map(
      (name) => [name, `^${known.get(name)?.replace('^', '')}`],
    ),
  ),
  null,
  2,
)}\n`

if (process.argv.includes('--update')) writeFileSync(file, text)
else if (readFileSync(file, 'utf8') !== text) {
  process.stderr.write('templates/versions.json is out of date: run it with --update.\n')
  process.exitCode = 1
}
