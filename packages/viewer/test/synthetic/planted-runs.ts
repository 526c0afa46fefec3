import { appendFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import type { ItemEvent } from '@osmosis/eval/analysis'

import { journalEvents, journalLine } from '../../../../test/kit/index.ts'
import type { Ending } from './airline-rollout.ts'
import { airlineManifest, airlineRollout, airlineTasks } from './airline-run.ts'
import { seededRandom } from './random.ts'
import { RunWriter } from './run-writer.ts'

/** Where things are planted in the run `planted`; attempts from 0. */
export const planted = {
  /** A pass that claims to have done what it did not do. */
  suspicious: { row: 17, attempt: 2 },
  /** Two attempts that differ from the step with this place on, and one of them fails. */
  divergence: { row: 5, failing: 1, passing: 0, at: 3 },
  /** A tool answered the same call differently at the step with this place. */
  environment: { at: 2 },
  /** A rollout with two samples. */
  samples: { row: 8, attempt: 0 },
  /** An agent hands over to another one. */
  handoff: { row: 9, attempt: 0 },
} as const

/** 40 rows × 4 attempts that all pass, but for what is planted. */
export function writePlantedRun(root: string): string {
  const tasks = airlineTasks(40)
  const random = seededRandom(7)
  const writer = new RunWriter(root, airlineManifest({ name: 'planted', attempts: 4 }, tasks))
  for (const task of tasks) {
    for (let attempt = 0; attempt < 4; attempt++) {
      const { event, samples } = airlineRollout(
        'planted',
        task,
        attempt,
        endingOf(task.row, attempt),
        random,
      )
      const whole = { ...event, reward: event.reward === 0.5 ? 1 : event.reward, rewritten: 0 }
      const isDiverging = task.row === planted.divergence.row && attempt < 2
      const isHandoff = task.row === planted.handoff.row && attempt === planted.handoff.attempt
      const isDouble = task.row === planted.samples.row && attempt === planted.samples.attempt
      writer.add(
        isDiverging && attempt === planted.divergence.failing ? { ...whole, reward: 0 } : whole,
        isDiverging
          ? { agent: divergenceAttempt(attempt === planted.divergence.failing) }
          : isDouble
            ? {
                planner: spoken('I make the plan.', [pixel]),
                writer: spoken('I write the answer.'),
              }
            : isHandoff
              ? { agent: handoff }
              : samples,
      )
    }
  }
  writer.close()
  return writer.folder
}

function endingOf(row: number, attempt: number): Ending {
  const isSuspicious = row === planted.suspicious.row && attempt === planted.suspicious.attempt
  return isSuspicious ? 'claimed' : 'right'
}

/** A document of one conversation. */
function trajectory(steps: readonly object[]): object {
  return {
    schema_version: 'ATIF-v1.7',
    agent: { name: 'test', version: '1' },
    steps: steps.map((step, index) => ({ step_id: index + 1, ...step })),
  }
}

/** An image of one pixel. */
const pixel = {
  type: 'image',
  source: {
    media_type: 'image/png',
    path: 'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  },
}

function spoken(text: string, images: readonly object[] = []): object {
  return trajectory([
    { source: 'user', message: [{ type: 'text', text: 'Go ahead.' }, ...images] },
    { source: 'agent', message: text },
  ])
}

const handoff = trajectory([
  { source: 'system', message: 'Find out what the customer wants.' },
  { source: 'user', message: 'I want my money back.' },
  {
    ...toolStep('transfer_to_Refunds', {}, '{"assistant":"Refunds"}'),
    metrics: { completion_tokens: 12, extra: { latency_ms: 800, agent: 'Triage' } },
  },
  {
    source: 'system',
    message: 'Refund what may be refunded.',
    extra: { instructions_changed: true, agent: 'Refunds' },
  },
  {
    source: 'agent',
    message: 'Which order is it?',
    metrics: {
      completion_tokens: 6,
      extra: {
        latency_ms: 500,
        agent: 'Refunds',
        history_rewritten: true,
        history_rewritten_at: 0,
        instructions_changed: true,
      },
    },
  },
])

function toolStep(name: string, args: object, result: string): object {
  return {
    source: 'agent',
    message: '',
    tool_calls: [{ tool_call_id: 'call', function_name: name, arguments: args }],
    observation: { results: [{ source_call_id: 'call', content: result }] },
  }
}

function divergenceAttempt(isFailing: boolean): object {
  return trajectory([
    { source: 'user', message: 'How much are three bags?' },
    toolStep('look_up', { id: 'A1' }, '{"cabin": "economy"}'),
    toolStep('price', { bags: 3 }, isFailing ? '160' : '150'),
    isFailing
      ? toolStep('update', { flights: 'HAT115' }, "Error: 'flights' must be a list")
      : toolStep('calculate', { expression: '3 * 50' }, '150'),
    { source: 'agent', message: isFailing ? 'I could not do it.' : 'It is $150.' },
  ])
}

/** What a model may say to break out of its place. */
export const hostileText =
  '<img src=x onerror="window.pwned=1"><svg onload="window.pwned=2"></script><script>window.pwned=3</script>\u2028`${window.pwned=4}` javascript:alert(1)'

/** A run in which everything that a model or a user names is hostile. */
export function writeHostileRun(root: string): string {
  const tasks = airlineTasks(12)
  const random = seededRandom(3)
  const plain = airlineManifest({ name: 'hostile', attempts: 2 }, tasks)
  const rows = plain.rows.map((row) => ({ ...row, facets: { [hostileText]: hostileText } }))
  const writer = new RunWriter(root, { ...plain, rows })
  for (const task of tasks) {
    for (let attempt = 0; attempt < 2; attempt++) {
      const { event } = airlineRollout('hostile', task, attempt, 'wrong amount', random)
      const failed = task.row === 3
      writer.add(
        {
          ...event,
          reward: failed ? null : attempt,
          status: failed ? 'failed' : 'success',
          error_type: failed ? hostileText : null,
          error_message: failed ? hostileText : null,
          summary: hostileText.slice(0, 160),
          tools: [{ name: hostileText, calls: 3, errors: 3 }],
          tool_errors: 3,
          metrics: { [hostileText]: 1, __proto__: 0 },
        },
        { [hostileText]: hostileTrajectory(attempt) },
      )
    }
  }
  writer.close()
  const note = { source_row_index: 1, run_index: 0, tag: hostileText, text: hostileText }
  appendFileSync(
    path.join(writer.folder, 'notes.jsonl'),
    `${JSON.stringify({ ...note, at: '2026-11-20T09:00:00.000Z' })}\n`,
  )
  return writer.folder
}

function hostileTrajectory(attempt: number): object {
  return trajectory([
    { source: 'system', message: hostileText.repeat(3) },
    { source: 'user', message: `\u202Eright to left\u202C \u001B[31mred\u001B[0m \u0000\uFFFF` },
    { source: 'agent', message: hostileText, reasoning_content: hostileText },
    toolStep(hostileText, { [hostileText]: hostileText }, hostileText),
    toolStep('one_line', {}, 'x'.repeat(2 ** 20)),
    { source: 'agent', message: attempt === 0 ? 'w'.repeat(5000) : hostileText },
  ])
}

/** Changes the events of a run that has been written. */
/** A run of one rollout, in which the agent says this beside its tool calls. */
export function writeSpeakingRun(root: string, name: string, text: string): void {
  const [task] = airlineTasks(1)
  if (task === undefined) throw new Error('There is a task.')
  const writer = new RunWriter(root, airlineManifest({ name, attempts: 1 }, [task]))
  const { event, samples } = airlineRollout(name, task, 0, 'right', seededRandom(3))
  const { steps, ...others } = samples['agent'] as { steps: { source: string }[] }
  const speaking = steps.map((step) =>
    step.source === 'agent' ? { ...step, message: text } : step,
  )
  writer.add(event, { agent: { ...others, steps: speaking } })
  writer.close()
}

export function rewriteEvents(
  folder: string,
  change: (event: ItemEvent, index: number) => object,
): void {
  const file = path.join(folder, 'events.jsonl')
  const events = journalEvents<ItemEvent>(file)
  writeFileSync(file, events.map((event, index) => journalLine(change(event, index))).join(''))
}
