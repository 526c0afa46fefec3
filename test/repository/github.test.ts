import { randomUUID } from 'node:crypto'
import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'

import { validate } from '@actions/languageservice'
import { expect, it } from 'vitest'
import { TextDocument } from 'vscode-languageserver-textdocument'
import { parse } from 'yaml'
import { z } from 'zod'

import { blocksOf, documents } from './documents.ts'

const root = path.resolve(import.meta.dirname, '../..')
const read = (file: string): string => readFileSync(path.join(root, file), 'utf8')
const workflows = globSync('.github/workflows/*.yml', { cwd: root })
const actions = globSync('.github/actions/*/action.yml', { cwd: root })
const forms = globSync('.github/ISSUE_TEMPLATE/!(config).yml', { cwd: root })

const actionFile = z.object({ inputs: z.record(z.string(), z.unknown()) })
const step = z.object({
  uses: z.string().optional(),
  with: z.record(z.string(), z.unknown()).optional(),
})
const workflowSteps = z
  .object({ jobs: z.record(z.string(), z.object({ steps: z.array(step) })) })
  .transform(({ jobs }) => Object.values(jobs).flatMap(({ steps }) => steps))

/** What GitHub's own parser has to say about a workflow or an action. It remembers files by name. */
async function complaints(
  text: string,
  file = `.github/workflows/${randomUUID()}.yml`,
): Promise<string[]> {
  const uri = `file:///${file}`
  const found = await validate(TextDocument.create(uri, 'yaml', 0, text))
  return found.map(({ range, message }) => `${range.start.line + 1}: ${JSON.stringify(message)}`)
}

it.each(workflows)('GitHub understands %s', async (file) => {
  expect(await complaints(read(file))).toEqual([])
})

it.each([
  ['runs-on:', 'run-on:', /Unexpected value 'run-on'/],
  ['${{ matrix.node }}\n', '${{ matrix.nod }}\n', /nod/],
  ['${{ matrix.node }}\n', '${{ matrixx.node }}\n', /Unrecognized named-value: 'matrixx'/],
  ['  test:\n', '  test:\n    needs: [nothing]\n', /Job 'test' depends on unknown job 'nothing'/],
  ["'pull_request' }}", "'pull_request'", /expression is not closed/],
])('a workflow with %j made %j is found out', async (right, wrong, complaint) => {
  const text = read('.github/workflows/ci.yml')
  expect(text).toContain(right)
  expect((await complaints(text.replace(right, wrong))).join('\n')).toMatch(complaint)
})

it.each(actions)('GitHub understands %s, which takes no action of others', async (file) => {
  const text = read(file)
  expect(await complaints(text, file)).toEqual([])
  const other = `${randomUUID()}/action.yml`
  expect(await complaints(text.replace('steps.evaluate', 'stepps.evaluate'), other)).not.toEqual([])
  expect(text).not.toMatch(/\buses:/)
})

const shownWorkflows = documents.flatMap((document) => blocksOf(document, 'yaml'))

it.each(shownWorkflows)(
  'GitHub understands the workflow in $document:$line, and our action its inputs',
  async ({ text }) => {
    expect(await complaints(text)).toEqual([])
    const steps = workflowSteps.parse(parse(text))
    const ours = steps.filter(({ uses = '' }) => uses.includes('/osmosis-sdk-typescript/'))
    expect(ours).not.toEqual([])
    for (const { uses = '', with: given = {} } of ours) {
      const [, folder = ''] = /^osmosis-ai\/osmosis-sdk-typescript\/(.*)@main$/.exec(uses) ?? []
      const { inputs } = actionFile.parse(parse(read(`${folder}/action.yml`)))
      expect(Object.keys(inputs)).toEqual(expect.arrayContaining(Object.keys(given)))
    }
  },
)

it.each(workflows)('%s takes actions by commit, with the version beside it', (file) => {
  const uses = read(file).match(/uses: .*/g) ?? []
  expect(uses).not.toEqual([])
  for (const line of uses)
    expect(line).toMatch(/^uses: [\w-]+(?:\/[\w-]+)+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/)
})

it.each(workflows)('%s runs scripts that there are', (file) => {
  const { scripts } = z
    .object({ scripts: z.record(z.string(), z.string()) })
    .parse(JSON.parse(read('package.json')))
  const names = [...read(file).matchAll(/pnpm@12 (?:run )?(?!install|exec)([\w:-]+)/g)].map(
    ([, name]) => name,
  )
  const runs = /\brun: /.test(read(file))
  expect(names.length > 0 || read(file).includes('.ci/run')).toBe(runs)
  expect(Object.keys(scripts)).toEqual(expect.arrayContaining(names))
})

// https://docs.github.com/en/communities/using-templates-to-encourage-useful-issues-and-pull-requests/syntax-for-githubs-form-schema
const label = z.string().min(1)
const shared = { label, description: z.string().optional() }
const field = {
  id: z.string().regex(/^[\w-]+$/),
  validations: z.strictObject({ required: z.boolean() }).optional(),
}
const issueForm = z.strictObject({
  name: z.string().min(3),
  description: z.string().min(3),
  labels: z.array(label),
  body: z
    .array(
      z.discriminatedUnion('type', [
        z.strictObject({
          type: z.literal('textarea'),
          attributes: z.strictObject({ ...shared, render: z.string().optional() }),
          ...field,
        }),
        z.strictObject({ type: z.literal('input'), attributes: z.strictObject(shared), ...field }),
      ]),
    )
    .refine((body) => new Set(body.map(({ id }) => id)).size === body.length, 'ids must differ')
    .refine(
      (body) => new Set(body.map(({ attributes }) => attributes.label)).size === body.length,
      'labels must differ',
    ),
})

it.each(forms)('%s is an issue form', (file) => {
  expect(issueForm.safeParse(parse(read(file))).error).toBeUndefined()
})
