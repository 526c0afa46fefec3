// @module-tag slow
import { chmodSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import { exampleFiles, writeNewFiles } from '@osmosis/create'
import { pythonWithTorch, tinyTransformer, withTorch } from '../../../test/kit/index.ts'
import { expect } from 'vitest'

import { osmosis, temporaryFolder } from './osmosis.ts'

const { it } = withTorch()

const agent = `import { AgentWorkflow, Grader, lastAssistantText, requireRolloutContext } from '@osmosis/core'

export class OpenDoor extends AgentWorkflow {
  async run(ctx) {
    const policy = requireRolloutContext('OpenDoor').policy('sample')
    const { choices } = await policy.complete({ messages: ctx.prompt })
    return [...ctx.prompt, choices[0].message]
  }
}

export class RightLetters extends Grader {
  async grade(ctx) {
    const said = lastAssistantText(ctx.sample)
    ctx.setReward(ctx.label === said ? 1 : 0)
  }
}
`

/** Is right at the first attempt at every third door, and never at the others. */
const sometimesRight = `import { scriptedPolicy } from '@osmosis/controller'

const asked = new Map()
export const policy = scriptedPolicy(({ messages }) => {
  const door = Number(/\\d+/.exec(messages.at(-1).content)[0])
  const attempt = asked.get(door) ?? 0
  asked.set(door, attempt + 1)
  return { content: door % 3 === 0 && attempt === 0 ? 'ab' : 'no' }
})
`

/** The workspace of the example, with the agent and policy above. Resolves with the flags of its learner. */
async function doorsWorkspace(folder: string): Promise<readonly string[]> {
  await writeNewFiles(folder, exampleFiles('doors', 'doors'))
  symlinkSync(
    path.resolve(import.meta.dirname, '../node_modules'),
    path.join(folder, 'node_modules'),
  )
  writeFileSync(path.join(folder, 'rollouts/doors/main.ts'), agent)
  writeFileSync(path.join(folder, 'policy.ts'), sometimesRight)
  const python = path.join(folder, 'python')
  writeFileSync(
    python,
    `#!/bin/sh\nOMP_NUM_THREADS=1 exec ${pythonWithTorch()} "$@" --policy-class ${tinyTransformer}\n`,
  )
  chmodSync(python, 0o755)
  return ['--model', 'tiny', '--python', python, '--lora-rank', '0']
}

/** 250 traces of four spans: two model calls with a tool call between, and an agent that somebody rated. */
function productionSpans(): string[] {
  return Array.from({ length: 250 }, (_, at) => {
    const traceId = at.toString(16).padStart(32, '0')
    // The last 50 users asked what others had asked.
    const door = at % 200
    const text = (key: string, value: unknown): unknown => ({
      key,
      value: { stringValue: typeof value === 'string' ? value : JSON.stringify(value) },
    })
    const said = (role: string, content: string): unknown[] => [
      { role, parts: [{ type: 'text', content }] },
    ]
    const question = text(
      'gen_ai.input.messages',
      said('user', `What is the code of door ${door}?`),
    )
    const answer = text('gen_ai.output.messages', said('assistant', 'ab'))
    const call = [{ role: 'assistant', parts: [{ type: 'tool_call', id: 'c', name: 'read_note' }] }]
    const rated = {
      name: 'gen_ai.evaluation.result',
      attributes: [
        text('gen_ai.evaluation.name', 'user'),
        text('gen_ai.evaluation.score.label', 'pass'),
        text('gen_ai.evaluation.explanation', `Thanks, from user${at}@example.com`),
      ],
    }
    return [
      [1, 2, [question, text('gen_ai.output.messages', call)], []],
      [2, 3, [text('gen_ai.tool.name', 'read_note')], []],
      [3, 4, [question, answer], []],
      [0, 5, [question, answer], [rated]],
    ].map(([start, end, attributes, events]) =>
      JSON.stringify({
        resourceSpans: [
          {
            scopeSpans: [
              {
                spans: [
                  {
                    traceId,
                    startTimeUnixNano: `${String(start)}00`,
                    endTimeUnixNano: `${String(end)}00`,
                    attributes,
                    events,
                  },
                ],
              },
            ],
          },
        ],
      }),
    )
  }).flat()
}

it(
  'four commands go from 1,000 spans to a dataset, an evaluation and a training',
  { timeout: 300_000 },
  async () => {
    const folder = temporaryFolder()
    const learner = await doorsWorkspace(folder)
    const spans = productionSpans()
    expect(spans).toHaveLength(1000)
    writeFileSync(path.join(folder, 'spans.jsonl'), spans.join('\n'))
    const call = async (words: string, ...more: readonly string[]): ReturnType<typeof osmosis> => {
      const ended = await osmosis([...words.split(' '), ...more], {}, folder)
      expect([ended.code, ended.code === 0 ? '' : ended.stderr]).toEqual([0, ''])
      return ended
    }

    const dataset = await call('dataset from-traces spans.jsonl --output data/asked.jsonl')
    expect(dataset.stderr).toContain('Read      1,000 records, 250 traces')
    expect(dataset.stderr).toContain('Kept      200 rows, 200 with a ground truth')
    expect(dataset.stderr).toContain('Left out  50 with the question of another')

    await call(
      'eval run -m rollouts/doors/main.ts --dataset data/asked.jsonl --policy policy.ts --n 2 --sample 60 --seed 1 --name asked --quiet --yes',
    )

    const exported = await call('eval export asked --rows data/train.jsonl --filter is:signal')
    const rows = readFileSync(path.join(folder, 'data/train.jsonl'), 'utf8').trimEnd().split('\n')
    const asked = readFileSync(path.join(folder, 'data/asked.jsonl'), 'utf8').split('\n')
    expect(exported.stdout).toContain(`${rows.length} rows`)
    expect(rows.length).toBeGreaterThan(8)
    for (const row of rows) {
      expect(asked.indexOf(row) % 3).toBe(0)
    }

    const trained = await call(
      'train local configs/training/doors.toml --dataset data/train.jsonl --steps 1 --rows-per-step 8 --n 8',
      ...learner,
    )
    expect(trained.stderr).toMatch(/^step {3}1 {2}reward 0/m)
  },
)
