import {
  answerOf,
  contentText,
  type Fields,
  fieldsOf,
  instructionTurns,
  listOf,
  textOf,
  turnsOf,
  unpacked,
} from './message-texts.ts'
import type { Feedback, TracePart } from './traces.ts'

/** The formats of exports. */
export type TraceFormat = 'otel' | 'langfuse' | 'openai-agents' | 'atif'

/** The format of a record of an export; undefined when it has none of the known shapes. */
export function formatOf(record: Fields): TraceFormat | undefined {
  if (textOf(record['schema_version'])?.startsWith('ATIF')) return 'atif'
  if (record['object'] === 'trace' || record['object'] === 'trace.span') return 'openai-agents'
  const isSpan = 'attributes' in record && ('traceId' in record || 'context' in record)
  if ('resourceSpans' in record || 'resourceLogs' in record || isSpan) return 'otel'
  if ('observations' in record && textOf(fieldsOf(record['trace'])['id'])) return 'langfuse'
  const isData = 'trace_id' in record || 'traceId' in record || 'input' in record
  const isLangfuse = isData || 'observations' in record
  return isLangfuse && ('id' in record || 'name' in record) ? 'langfuse' : undefined
}

/** What a record says, by its format. */
export const readers: Readonly<Record<TraceFormat, (record: Fields) => readonly TracePart[]>> = {
  otel: openTelemetryParts,
  langfuse: langfuseParts,
  'openai-agents': agentsParts,
  atif: atifParts,
}

/** What an export of a format needs to have a question. */
export const advice: Readonly<Record<string, string>> = {
  otel: 'Spans have messages when their content is captured (OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT).',
  langfuse:
    'Langfuse has messages in the input of a trace, or of its generations: export these with input and output.',
  'openai-agents':
    'The exporter of the OpenAI Agents SDK leaves out what was said to the Responses API: write span_data with _input and _response in a tracing processor of your own.',
}

/**
 * An observation, a score, a trace with or without them, or the download of one from the page of Langfuse; names in
 * snake case or camel case.
 */
function langfuseParts(record: Fields): TracePart[] {
  const { trace: download, observations } = record
  if (textOf(fieldsOf(download)['id']))
    return langfuseParts({ ...fieldsOf(download), observations })
  const field = (name: string): unknown =>
    record[name] ?? record[name.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase())]
  const own = textOf(field('trace_id'))
  const trace = own ?? textOf(record['id'])
  if (trace === undefined) return []
  if ('value' in record || field('data_type') !== undefined) return [scorePart(trace, field)]
  const inner = [...listOf(record['observations']), ...listOf(record['scores'])]
  const type = textOf(record['type'])
  const name = textOf(record['name'])
  const start = own === undefined ? -Infinity : timeOf(field('start_time'))
  const isModel = own === undefined || ['GENERATION', 'AGENT'].includes(type ?? '')
  return [
    {
      trace,
      start,
      end: own === undefined ? Infinity : timeOf(field('end_time') ?? field('start_time')),
      ...(isModel ? { turns: turnsOf(record['input']), answer: answerOf(record['output']) } : {}),
      tools: type === 'TOOL' && name !== undefined ? [name] : [],
    },
    ...inner.flatMap((one) => langfuseParts({ trace_id: trace, ...one })),
  ]
}

function scorePart(trace: string, field: (name: string) => unknown): TracePart {
  const value = field('value')
  const type = field('data_type')
  const text = textOf(field('string_value')) ?? textOf(field('long_string_value')) ?? textOf(value)
  if (type === 'CORRECTION') return { trace, reference: text }
  const given = type === 'BOOLEAN' && typeof value === 'number' ? value === 1 : (text ?? value)
  return { trace, feedback: feedbackOf(textOf(field('name')) ?? 'score', given) }
}

function agentsParts(record: Fields): TracePart[] {
  const trace = textOf(record['trace_id'])
  if (trace === undefined) return []
  const data = fieldsOf(record['span_data'])
  const time = { start: timeOf(record['started_at']), end: timeOf(record['ended_at']) }
  const name = textOf(data['name'])
  if (data['type'] === 'function' && name !== undefined) return [{ trace, tools: [name] }]
  if (data['type'] !== 'generation' && data['type'] !== 'response') return []
  const response = fieldsOf(data['_response'] ?? data['response'])
  const turns = turnsOf(data['input'] ?? data['_input'])
  return [
    {
      trace,
      ...time,
      turns: [...instructionTurns(response['instructions']), ...turns],
      answer: answerOf(data['output'] ?? response['output']),
    },
  ]
}

function atifParts(document: Fields): TracePart[] {
  const trace = textOf(document['trajectory_id']) ?? textOf(document['session_id'])
  if (trace === undefined) return []
  return [{ trace, ...atifConversation(document) }]
}

/** What a document of a conversation says about it. */
export function atifConversation(document: Fields): Omit<TracePart, 'trace'> {
  const steps = listOf(document['steps']).filter((step) => step['is_copied_context'] !== true)
  const lastAsked = steps.findLastIndex(({ source }) => source === 'user')
  const answer = steps
    .slice(lastAsked + 1)
    .filter(({ source }) => source === 'agent')
    .findLast(({ message }) => contentText(message).trim() !== '')
  const { reward } = fieldsOf(fieldsOf(document['extra'])['osmosis'])
  return {
    turns: turnsOf(steps.slice(0, lastAsked + 1)),
    answer: contentText(answer?.['message']),
    tools: steps.flatMap(({ tool_calls: calls }) =>
      listOf(calls).flatMap((call) => textOf(call['function_name']) ?? []),
    ),
    feedback: feedbackOf('reward', reward),
  }
}

/** Empty for a value that says nothing. */
function feedbackOf(name: string, value: unknown): Feedback[] {
  const isSaid = ['string', 'number', 'boolean'].includes(typeof value)
  return isSaid ? [{ name, value: value as Feedback['value'] }] : []
}

/** Milliseconds. 0 for anything else. */
function timeOf(value: unknown): number {
  const time = typeof value === 'string' ? Date.parse(value.replace(' ', 'T')) : Number(value)
  return Number.isFinite(time) ? time : 0
}

/**
 * What a record of OpenTelemetry says: OTLP with spans or events, or a span as exporters print it. Only what the
 * conventions for generative AI name is read.
 */
function openTelemetryParts(record: Fields): TracePart[] {
  const { resourceSpans, resourceLogs } = record
  if (resourceSpans === undefined && resourceLogs === undefined) return spanParts(record)
  return [
    ...scopesOf(resourceSpans, 'scopeSpans').flatMap(({ spans }) => listOf(spans)),
    ...scopesOf(resourceLogs, 'scopeLogs').flatMap(({ logRecords }) => listOf(logRecords)),
  ].flatMap(spanParts)
}

function scopesOf(resources: unknown, key: string): readonly Fields[] {
  return listOf(resources).flatMap((resource) => listOf(resource[key]))
}

function spanParts(span: Fields): TracePart[] {
  const trace = textOf(span['traceId']) ?? textOf(fieldsOf(span['context'])['trace_id'])
  if (trace === undefined) return []
  const attributes = attributesOf(span['attributes'])
  const events = listOf(span['events']).map((event) => ({
    name: event['name'],
    attributes: attributesOf(event['attributes']),
  }))
  const own = { name: span['eventName'] ?? span['name'], attributes }
  const details = [own, ...events].filter(({ attributes: some }) => 'gen_ai.input.messages' in some)
  const said = details[0]?.attributes ?? attributes
  const tool = textOf(attributes['gen_ai.tool.name'])
  return [
    {
      trace,
      start: spanTime(
        span['startTimeUnixNano'] ??
          span['start_time'] ??
          span['startTime'] ??
          span['timeUnixNano'],
      ),
      end: spanTime(
        span['endTimeUnixNano'] ?? span['end_time'] ?? span['endTime'] ?? span['timeUnixNano'],
      ),
      turns: [
        ...instructionTurns(unpacked(said['gen_ai.system_instructions'])),
        ...turnsOf(said['gen_ai.input.messages']),
      ],
      answer: answerOf(said['gen_ai.output.messages']),
      tools: tool === undefined ? [] : [tool],
      feedback: [own, ...events].flatMap(feedbackIn),
    },
  ]
}

function feedbackIn(event: { readonly name: unknown; readonly attributes: Fields }): Feedback[] {
  if (event.name !== 'gen_ai.evaluation.result') return []
  const { attributes } = event
  const value =
    attributes['gen_ai.evaluation.score.label'] ?? attributes['gen_ai.evaluation.score.value']
  if (typeof value !== 'string' && typeof value !== 'number') return []
  return [{ name: textOf(attributes['gen_ai.evaluation.name']) ?? 'evaluation', value }]
}

/** Attributes by name, of OTLP's list or of an object. */
function attributesOf(attributes: unknown): Fields {
  if (!Array.isArray(attributes)) return fieldsOf(attributes)
  return Object.fromEntries(
    listOf(attributes).map(({ key, value }) => [String(key), plainValue(value)]),
  )
}

function plainValue(value: unknown): unknown {
  const { stringValue, intValue, doubleValue, boolValue, arrayValue, kvlistValue } = fieldsOf(value)
  if (arrayValue !== undefined) return listOf(fieldsOf(arrayValue)['values']).map(plainValue)
  if (kvlistValue !== undefined) return attributesOf(fieldsOf(kvlistValue)['values'])
  const number = intValue ?? doubleValue
  return stringValue ?? boolValue ?? (number === undefined ? undefined : Number(number))
}

/** In any unit: all spans of a trace are of one export. 0 for anything else. */
function spanTime(value: unknown): number {
  if (Array.isArray(value)) return Number(value[0]) * 1e9 + Number(value[1])
  const number =
    typeof value === 'string' && !/^\d+$/.test(value) ? Date.parse(value) : Number(value)
  return Number.isFinite(number) ? number : 0
}
