import { invalid } from '../../command/exit-codes.ts'
import { hash } from 'node:crypto'
import { existsSync } from 'node:fs'
import path from 'node:path'

import { errorMessage, OsmosisError } from '@osmosis/core'
import { formatQuantity, openRun } from '@osmosis/eval'

import { keepYoungGenerationSmall } from '../../command/process.ts'
import { resolvePath, printError } from '../../command/command-context.ts'
import { writeTexts } from '../../eval/export/write-texts.ts'
import type { FromTracesFlags } from '../from-traces.ts'
import { readObjects } from './json-values.ts'
import { fieldsOf } from './message-texts.ts'
import { PersonalData } from './privacy/personal-data.ts'
import { SpooledValues, type SpooledPlace } from './spooled-values.ts'
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
  const { output, report, force = false } = flags
  for (const file of [output, report]) {
    if (file === undefined || file === '-' || force || !existsSync(resolvePath(file))) continue
    throw invalid(`${file} exists already. Pass --force to replace it.`)
  }
  const personal = new PersonalData(
    (flags.allow ?? []).map((text) => regexOf('--allow', text)),
    (flags.deny ?? []).map((text) => regexOf('--deny', text)),
  )
  keepYoungGenerationSmall()
  // Where there is room for the dataset, too.
  const values = new SpooledValues(output === '-' ? undefined : path.dirname(resolvePath(output)))
  try {
    return await writeRows(files, flags, personal, values)
  } finally {
    values[Symbol.dispose]()
  }
}

async function writeRows(
  files: readonly string[],
  flags: FromTracesFlags,
  personal: PersonalData,
  values: SpooledValues,
): Promise<number> {
  const { output, report: reportFile } = flags
  const reading = new TraceReading(flags.from, values)
  for (const file of files) await reading.read(file)
  const { size } = reading.traces
  const rows = new Map<string, SpooledPlace>()
  /** The first answers to their questions. */
  const answers = new Map<string, SpooledPlace>()
  const [asked, silent] = [new Set<string>(), new Set<string>()]
  for (const [id, trace] of reading.traces) {
    reading.traces.delete(id)
    const row = rowOf(id, trace, { personal, flags, values })
    if (row === undefined) {
      reading.leaveOut('without a question')
      silent.add(trace.source)
      continue
    }
    asked.add(trace.source)
    const { messages } = row['metadata'] as { messages?: unknown }
    const question = [row['system_prompt'], row['user_prompt'], messages]
    const key = hash('sha256', JSON.stringify(trace.row ?? question), 'binary')
    if (row.ground_truth !== null && !answers.has(key)) {
      answers.set(key, values.put(row.ground_truth))
    }
    if (rows.has(key)) reading.leaveOut('with the question of another')
    else rows.set(key, values.put({ ...row, ground_truth: null }))
  }
  const advised = [...silent].flatMap((source) => (asked.has(source) ? [] : (advice[source] ?? [])))
  if (rows.size === 0) {
    const formats = 'The folder examples/traces of the repository has an example of each format.'
    throw invalid(
      `There is no question in ${files.join(', ')}. ${formatQuantity(reading.records, 'record')} read, left out: ${listed(reading.leftOut)}. ${[...advised, formats].join(' ')}`,
    )
  }
  await writeTexts(output, linesOf(rows, answers, values))
  const report = {
    read: { records: reading.records, traces: size },
    kept: { rows: rows.size, with_ground_truth: answers.size },
    left_out: reading.leftOut,
    replaced: personal.replaced,
  }
  if (reportFile !== undefined)
    await writeTexts(reportFile, [`${JSON.stringify(report, null, 2)}\n`])
  printError(
    [
      `Read      ${formatQuantity(reading.records, 'record')}, ${formatQuantity(size, 'trace')}`,
      `Kept      ${formatQuantity(rows.size, 'row')}, ${answers.size} with a ground truth`,
      `Left out  ${listed(reading.leftOut)}`,
      `Replaced  ${listed(personal.replaced)}`,
      ...advised,
      '',
    ].join('\n'),
  )
  return 0
}

function* linesOf(
  rows: ReadonlyMap<string, SpooledPlace>,
  answers: ReadonlyMap<string, SpooledPlace>,
  values: SpooledValues,
): Generator<string, void> {
  for (const [key, at] of rows) {
    const row = values.get(at) as RowFields
    const answer = answers.get(key)
    if (answer !== undefined) row.ground_truth = values.get(answer) as string
    yield `${JSON.stringify(row)}\n`
  }
}

/** Traces that are put together from the records of files. */
class TraceReading {
  readonly traces = new Map<string, Trace>()
  readonly leftOut: Record<string, number> = {}
  records = 0
  readonly #format: FromTracesFlags['from']

  readonly #values: SpooledValues

  constructor(format: FromTracesFlags['from'], values: SpooledValues) {
    this.#format = format
    this.#values = values
  }

  leaveOut(why: string): void {
    this.leftOut[why] = (this.leftOut[why] ?? 0) + 1
  }

  async read(file: string): Promise<void> {
    const place = resolvePath(file)
    const isRun = existsSync(path.join(place, 'manifest.json'))
    if (isRun && (this.#format ?? 'run') === 'run') return this.#readRun(place)
    if (this.#format === 'run') throw invalid(`${file} is not the folder of a run.`)
    try {
      for await (const found of readObjects(place)) {
        if (found.kind === 'record') this.#take(fieldsOf(found.value))
        else if (found.kind === 'document') this.records += 1
        else if (found.kind === 'span') this.#takeSpan(fieldsOf(found.value))
        else this.leaveOut(found.kind === 'broken' ? 'that are not JSON' : 'of more than 32 MiB')
      }
    } catch (cause) {
      if (cause instanceof OsmosisError) throw cause
      throw invalid(`Cannot read ${file}: ${errorMessage(cause)}`, cause)
    }
  }

  #take(record: Readonly<Record<string, unknown>>): void {
    const format = (this.#format as TraceFormat | undefined) ?? formatOf(record)
    this.records += 1
    const parts = format === undefined ? [] : readers[format](record)
    if (format === undefined) this.leaveOut('of no known format')
    else for (const part of parts) this.#add(format, part)
  }

  #takeSpan(span: Readonly<Record<string, unknown>>): void {
    const isWanted = this.#format === undefined || this.#format === 'otel'
    for (const part of isWanted ? readers.otel(span) : []) this.#add('otel', part)
  }

  #add(source: string, part: TracePart): void {
    const known = this.traces.get(part.trace)
    const trace = known ?? new Trace(source)
    if (known === undefined) this.traces.set(part.trace, trace)
    trace.add(part, this.#values)
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
  id: string,
  trace: Trace,
  {
    personal,
    flags,
    values,
  }: { personal: PersonalData; flags: FromTracesFlags; values: SpooledValues },
): RowFields | undefined {
  const { goodScore, withSystem } = flags
  const all = trace.turns(values)
  const turns = all.filter(({ role }) => role !== 'system')
  const asked = turns.findLastIndex(({ role }) => role === 'user')
  const question = turns[asked]
  if (question === undefined) return undefined
  const system = withSystem ? all.filter(({ role }) => role === 'system') : []
  const before = turns.slice(0, asked).map(({ role, text }) => ({ role, content: text }))
  const reference = referenceOf(trace, goodScore, values)
  const { tools, feedback: given } = trace
  const feedback = Object.fromEntries(given.map(({ name, value }) => [name, value]))
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
        ...(tools.length === 0 ? {} : { tools }),
        ...(given.length === 0 ? {} : { feedback }),
      }) as Record<string, unknown>),
      source: trace.source,
      trace_id: id,
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
