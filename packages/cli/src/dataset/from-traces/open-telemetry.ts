import {
  answerOf,
  fieldsOf,
  instructionTurns,
  listOf,
  textOf,
  turnsOf,
  unpacked,
  type Fields,
} from './message-texts.ts'
import type { Feedback, TracePart } from './traces.ts'

/**
 * What a record of OpenTelemetry says: OTLP with spans or events, or a span as exporters print it. Only what the
 * conventions for generative AI name is read.
 */
export function openTelemetryParts(record: Fields): TracePart[] {
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
      start: timeOf(
        span['startTimeUnixNano'] ??
          span['start_time'] ??
          span['startTime'] ??
          span['timeUnixNano'],
      ),
      end: timeOf(
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
function timeOf(value: unknown): number {
  if (Array.isArray(value)) return Number(value[0]) * 1e9 + Number(value[1])
  const number =
    typeof value === 'string' && !/^\d+$/.test(value) ? Date.parse(value) : Number(value)
  return Number.isFinite(number) ? number : 0
}
