import { existsSync } from 'node:fs'
import path from 'node:path'

import { errorMessage, OsmosisError } from '@osmosis/core'
import { formatQuantity, openRun } from '@osmosis/eval'

import { fromHere, printError } from '../../command/surroundings.ts'
import { writeTexts } from '../../eval/export/write-texts.ts'
import type { FromTracesFlags } from '../from-traces.ts'
import { readObjects } from './json-values.ts'
import { fieldsOf, listOf } from './message-texts.ts'
import { PersonalData } from './personal-data.ts'
import { advice, atifConversation, formatOf, readers, type TraceFormat } from './trace-formats.ts'
import { referenceOf, Trace, type TracePart } from './traces.ts'

type RowFields = Record<string, unknown> & { ground_truth: string | null }

/**
 * Writes a row for each different question of traces. Resolves with the exit code.
 *
 * @throws OsmosisError with code `invalid_config` for flags and files that cannot be used; `storage_error`
 */
export async function fromTracesCommand(
  files: readonly string[],
  flags: FromTracesFlags,
): Promise<number> {
  const { output, report: reportFile, force = false } = flags
  for (const file of [output, reportFile]) {
    if (file === undefined || file === '-' || force || !existsSync(fromHere(file))) continue
    throw invalid(`${file} exists already. Pass --force to replace it.`)
  }
  const personal = new PersonalData(
    (flags.allow ?? []).map((text) => regexOf('--allow', text)),
    (flags.deny ?? []).map((text) => regexOf('--deny', text)),
  )
  const reading = new TraceReading(flags.from)
  for (const file of files) await reading.read(file)
  const rows = new Map<string, RowFields>()
  const [asked, silent] = [new Set<string>(), new Set<string>()]
  for (const trace of reading.traces.values()) {
    const row = rowOf(trace, personal, flags)
    if (row === undefined) {
      reading.leaveOut('without a question')
      silent.add(trace.source)
      continue
    }
    asked.add(trace.source)
    const { messages } = row['metadata'] as { messages?: unknown }
    const question = [row['system_prompt'], row['user_prompt'], messages]
    const key = JSON.stringify(trace.row ?? question)
    const earlier = rows.get(key)
    if (earlier !== undefined) {
      earlier.ground_truth ??= row.ground_truth
      reading.leaveOut('with the question of another')
    } else rows.set(key, row)
  }
  const advised = [...silent].flatMap((source) => (asked.has(source) ? [] : (advice[source] ?? [])))
  if (rows.size === 0) {
    const formats = 'The folder examples/traces of the repository has an example of each format.'
    throw invalid(
      `There is no question in ${files.join(', ')}. ${formatQuantity(reading.records, 'record')} read, left out: ${listed(reading.leftOut)}. ${[...advised, formats].join(' ')}`,
    )
  }
  const labelled = [...rows.values()].filter(({ ground_truth: answer }) => answer !== null).length
  await writeTexts(
    output,
    [...rows.values()].map((row) => `${JSON.stringify(row)}\n`),
  )
  const report = {
    read: { records: reading.records, traces: reading.traces.size },
    kept: { rows: rows.size, with_ground_truth: labelled },
    left_out: reading.leftOut,
    replaced: personal.replaced,
  }
  if (reportFile !== undefined)
    await writeTexts(reportFile, [`${JSON.stringify(report, null, 2)}\n`])
  printError(
    [
      `Read      ${formatQuantity(reading.records, 'record')}, ${formatQuantity(reading.traces.size, 'trace')}`,
      `Kept      ${formatQuantity(rows.size, 'row')}, ${labelled} with a ground truth`,
      `Left out  ${listed(reading.leftOut)}`,
      `Replaced  ${listed(personal.replaced)}`,
      ...advised,
      '',
    ].join('\n'),
  )
  return 0
}

/** Traces that are put together from the records of files. */
class TraceReading {
  readonly traces = new Map<string, Trace>()
  readonly leftOut: Record<string, number> = {}
  records = 0
  readonly #format: FromTracesFlags['from']

  constructor(format: FromTracesFlags['from']) {
    this.#format = format
  }

  leaveOut(why: string): void {
    this.leftOut[why] = (this.leftOut[why] ?? 0) + 1
  }

  async read(file: string): Promise<void> {
    const place = fromHere(file)
    const isRun = existsSync(path.join(place, 'manifest.json'))
    if (isRun && (this.#format ?? 'run') === 'run') return this.#readRun(place)
    if (this.#format === 'run') throw invalid(`${file} is not the folder of a run.`)
    try {
      for await (const value of readObjects(place)) {
        const record = fieldsOf(value)
        const { data } = record
        // Batches and answers of interfaces have their records in a list.
        if (value === undefined) this.leaveOut('that are not JSON')
        else for (const one of Array.isArray(data) ? listOf(data) : [record]) this.#take(one)
      }
    } catch (cause) {
      if (cause instanceof OsmosisError) throw cause
      throw new OsmosisError('invalid_config', `Cannot read ${file}: ${errorMessage(cause)}`, {
        cause,
      })
    }
  }

  #take(record: Readonly<Record<string, unknown>>): void {
    const format = (this.#format as TraceFormat | undefined) ?? formatOf(record)
    this.records += 1
    const parts = format === undefined ? [] : readers[format](record)
    if (format === undefined) this.leaveOut('of no known format')
    else for (const part of parts) this.#add(format, part)
  }

  #add(source: string, part: TracePart): void {
    const known = this.traces.get(part.trace)
    const trace = known ?? new Trace(part.trace, source)
    if (known === undefined) this.traces.set(part.trace, trace)
    trace.add(part)
  }

  /** Each sample is a trace; the reference answer is that of its row. */
  async #readRun(folder: string): Promise<void> {
    const run = await openRun(folder)
    const { pass_threshold: threshold } = run.manifest
    for (const event of run.sortedEvents) {
      this.records += 1
      const said = await run.trajectories(event)
      if (said.state !== 'found') {
        this.leaveOut('without a transcript')
        continue
      }
      const graded = await run.graded(event)
      const label = graded.state === 'found' ? graded.value.label : null
      const metadata = graded.state === 'found' ? graded.value.metadata : null
      const documents = Object.entries(said.value)
      for (const [sample, document] of documents) {
        const reward = event.samples[sample] ?? null
        this.#add('run', {
          ...atifConversation(document),
          trace: `${event.rollout_id}/${sample}`,
          row: documents.length === 1 ? event.row_key : `${event.row_key}/${sample}`,
          feedback: reward === null ? [] : [{ name: 'passed', value: reward >= threshold }],
          reference: label ?? undefined,
          metadata,
        })
      }
    }
  }
}

/** Undefined for a trace without a question. */
function rowOf(
  trace: Trace,
  personal: PersonalData,
  { goodScore, withSystem }: FromTracesFlags,
): RowFields | undefined {
  const turns = trace.turns.filter(({ role }) => role !== 'system')
  const asked = turns.findLastIndex(({ role }) => role === 'user')
  const question = turns[asked]
  if (question === undefined) return undefined
  const system = withSystem ? trace.turns.filter(({ role }) => role === 'system') : []
  const before = turns.slice(0, asked).map(({ role, text }) => ({ role, content: text }))
  const reference = referenceOf(trace, goodScore)
  const feedback = Object.fromEntries(trace.feedback.map(({ name, value }) => [name, value]))
  return {
    ...(trace.row === undefined ? {} : { id: trace.row }),
    ...(system.length === 0
      ? {}
      : { system_prompt: personal.text(system.map(({ text }) => text).join('\n\n')) }),
    user_prompt: personal.text(question.text),
    ground_truth: reference === undefined ? null : personal.text(reference),
    metadata: {
      ...(personal.data({
        ...trace.metadata,
        ...(before.length === 0 ? {} : { messages: before }),
        ...(trace.tools.size === 0 ? {} : { tools: [...trace.tools].toSorted() }),
        ...(trace.feedback.length === 0 ? {} : { feedback }),
      }) as Record<string, unknown>),
      source: trace.source,
      trace_id: trace.id,
    },
  }
}

function listed(counts: Readonly<Record<string, number>>): string {
  const texts = Object.entries(counts).map(([name, count]) => `${count} ${name}`)
  return texts.length === 0 ? 'nothing' : texts.join(', ')
}

function regexOf(flag: string, text: string): RegExp {
  try {
    return new RegExp(text)
  } catch (cause) {
    throw invalid(`${flag} must be a regular expression, got '${text}': ${errorMessage(cause)}`)
  }
}

function invalid(message: string): OsmosisError {
  return new OsmosisError('invalid_config', message)
}
