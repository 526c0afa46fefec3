import { z } from 'zod'

import {
  count,
  listOf,
  listQuery,
  logQuery,
  logs,
  noBody,
  text,
  type Contract,
  type Exchange,
} from './stand-in-models.ts'
import { refusal, type StandInAnswer, type StandInRequest } from './stand-in-request.ts'
import { runContract } from './stand-in-run-contract.ts'

const user = z.strictObject({ id: text, email: text, name: text.nullish() })
const identity = { user, expires_at: text.nullish(), token_id: text.nullish() }

const dataset = z.strictObject({
  id: text,
  file_name: text,
  file_size: count,
  status: z.enum(['pending', 'uploading', 'processing', 'uploaded', 'error', 'cancelled']),
  data_preview: z.unknown().optional(),
  file_format: text.nullish(),
  original_file_format: text.nullish(),
  row_count: count.nullish(),
  original_file_size: count.nullish(),
  creator_name: text.nullish(),
  created_at: text,
  updated_at: text,
  platform_url: text,
})
const upload = z.discriminatedUnion('method', [
  z.strictObject({
    method: z.literal('simple'),
    presigned_url: text,
    expires_in: count,
    upload_headers: z.record(z.string(), z.string()),
  }),
  z.strictObject({
    method: z.literal('multipart'),
    part_size: count,
    total_parts: count,
    presigned_urls: z.array(z.strictObject({ part_number: count, presigned_url: text })),
  }),
])

const secret = z.strictObject({
  id: text,
  name: text,
  scope: z.enum(['workspace', 'user']),
  created_at: text,
  updated_at: text,
  creator_name: text.nullish(),
  updater_name: text.nullish(),
})
const secretName = { name: text, scope: secret.shape.scope }

const contract: Contract = {
  ...runContract,
  'POST device/authorize': {
    body: z.strictObject({ deviceName: text }),
    answer: z.strictObject({
      device_code: text,
      user_code: text,
      verification_uri: text,
      verification_uri_complete: text.nullish(),
      expires_in: count,
      interval: z.number(),
    }),
  },
  'POST device/token': {
    body: z.strictObject({ device_code: text }),
    answer: z.strictObject({ token: text, ...identity }),
  },
  'DELETE tokens/:': {},
  'GET verify': {
    answer: z.strictObject({
      ...identity,
      workspace: z.strictObject({ id: text, name: text, role: text }).nullish(),
    }),
  },
  'GET workspaces': {
    answer: z.strictObject({
      workspaces: z.array(
        z.strictObject({
          id: text,
          name: text,
          connected_repo: z.strictObject({ repo_full_name: text }).nullable(),
        }),
      ),
    }),
  },
  'GET datasets': { query: listQuery, answer: listOf('datasets', dataset) },
  'POST datasets': {
    body: z.strictObject({
      file_name: text,
      file_size: count,
      extension: z.enum(['csv', 'jsonl', 'parquet']),
      overwrite_dataset_id: text.optional(),
    }),
    answer: dataset.extend({ upload }),
  },
  'GET datasets/:': { answer: dataset },
  'GET datasets/:/download': {
    answer: z.strictObject({ presigned_url: text, expires_in: count, file_name: text }),
  },
  'GET datasets/:/logs': { query: logQuery, answer: logs },
  'POST datasets/:/complete': {
    body: z.strictObject({
      file_extension: text,
      parts: z.array(z.strictObject({ PartNumber: count, ETag: text })).optional(),
    }),
    answer: dataset,
  },
  'POST datasets/:/abort': { body: noBody },
  'GET environment-secrets': {
    query: listQuery.extend({ scope: z.enum(['all', 'workspace', 'user']) }),
    answer: listOf('environment_secrets', secret),
  },
  'POST environment-secrets': {
    body: z.strictObject({ ...secretName, value: text }),
    answer: secret,
  },
  'DELETE environment-secrets': { body: z.strictObject(secretName) },
}

/** Refuses a request that the Python SDK would not send; undefined for one that it would. */
export function refuseUnfit(request: StandInRequest): StandInAnswer | undefined {
  const exchange = exchangeOf(request)
  if (exchange === undefined) return undefined
  const { query = noBody, body } = exchange
  const faults = [
    ...faultsOf(query, Object.fromEntries(request.query)),
    ...(body === undefined ? bodyFaults(request) : faultsOf(body, request.body)),
  ]
  if (faults.length === 0) return undefined
  return refusal(400, `The Python SDK sends no such request: ${faults.join('; ')}`)
}

/** @throws Error when the stand-in gives an answer that the Python SDK cannot read */
export function assertFit(request: StandInRequest, { status = 200, body }: StandInAnswer): void {
  const schema = status === 200 ? exchangeOf(request)?.answer : undefined
  const faults = schema === undefined ? [] : faultsOf(schema, body)
  if (faults.length > 0) {
    throw new Error(`The Python SDK could not read this answer: ${faults.join('; ')}`)
  }
}

function exchangeOf({ method, path }: StandInRequest): Exchange | undefined {
  const key = Object.keys(contract).find((known) => {
    const [knownMethod, route = ''] = known.split(' ')
    const segments = route.split('/')
    return (
      knownMethod === method &&
      segments.length === path.length &&
      segments.every((segment, at) => segment === ':' || segment === path[at])
    )
  })
  return key === undefined ? undefined : contract[key]
}

function bodyFaults({ raw }: StandInRequest): string[] {
  return raw.length === 0 ? [] : ['it has a body']
}

function faultsOf(schema: z.ZodType, value: unknown): string[] {
  const issues = schema.safeParse(value).error?.issues ?? []
  return issues.map(({ path, message }) => `${path.join('.')}: ${message}`)
}
