import {
  logPage,
  page,
  refusal,
  type StandInAnswer,
  type StandInRequest,
} from './stand-in-request.ts'

/** A dataset that the stand-in has. */
export interface StandInDataset {
  id: string
  file_name: string
  file_size: number
  status: string
  file_format: string
  data_preview?: unknown
  row_count?: number
  created_at: string
  updated_at: string
  platform_url: string
}

/** Datasets of the stand-in, and the storage that presigned URLs lead to. */
export class StandInDatasets {
  readonly list: StandInDataset[] = []
  /** The content of each dataset by its id, stored when an upload is complete. */
  readonly contents = new Map<string, Buffer>()
  readonly logs: unknown[] = []
  /** The size of a part in multipart uploads. Bytes; undefined for uploads in one part. */
  partSize: number | undefined
  /** Statuses of the next answers of the storage, before it accepts an upload. */
  storageFailures: number[] = []
  /** Ids of uploads that were aborted. */
  readonly aborted: string[] = []
  readonly #parts = new Map<string, Map<number, Buffer>>()
  readonly #url: () => string

  constructor(url: () => string) {
    this.#url = url
  }

  answer(request: StandInRequest): StandInAnswer | undefined {
    const { method, path, query } = request
    const [, name, action] = path
    if (name === undefined) {
      return method === 'GET' ? page('datasets', this.list, query) : this.#create(request.body)
    }
    const found = this.list.find(({ id, file_name: file }) => id === name || file === name)
    if (!found) return refusal(404, `There is no dataset ${name}.`)
    if (method === 'GET') return this.#read(found, action, query)
    if (action === 'complete') return this.#complete(found, request.body)
    if (action !== 'abort') return undefined
    this.aborted.push(found.id)
    this.list.splice(this.list.indexOf(found), 1)
    return { body: {} }
  }

  /** Adds an existing dataset. */
  add(file: string, content: string, more: Partial<StandInDataset> = {}): StandInDataset {
    const dataset = this.#new(file, 'jsonl', content.length)
    Object.assign(dataset, { status: 'uploaded' }, more)
    this.contents.set(dataset.id, Buffer.from(content))
    return dataset
  }

  /** The storage: what presigned URLs lead to. */
  store({ method, path: [, id = '', part = '1'], raw }: StandInRequest): StandInAnswer {
    const failure = this.storageFailures.shift()
    if (failure !== undefined) return { status: failure, body: 'the storage refuses' }
    if (method === 'GET') return { body: this.contents.get(id) ?? Buffer.alloc(0) }
    const parts = this.#parts.get(id) ?? new Map<number, Buffer>()
    this.#parts.set(id, parts.set(Number(part), raw))
    return { headers: { etag: `"etag-${part}"` } }
  }

  #create(body: StandInRequest['body']): StandInAnswer {
    const { file_name: file, file_size: size, extension, overwrite_dataset_id: overwrite } = body
    const existing = this.list.find(({ file_name: name }) => name === file)
    if (existing && overwrite !== existing.id) {
      return refusal(409, `There is a dataset ${existing.file_name} already.`, {
        existing_dataset_id: existing.id,
      })
    }
    if (existing) this.list.splice(this.list.indexOf(existing), 1)
    const dataset = this.#new(String(file), String(extension), Number(size))
    return { body: { ...dataset, upload: this.#upload(dataset) } }
  }

  #upload({ id, file_size: size }: StandInDataset): Record<string, unknown> {
    const base = `${this.#url()}/storage/${id}`
    const signed = 'X-Signature=planted-signature'
    if (this.partSize === undefined) {
      return {
        method: 'simple',
        presigned_url: `${base}/1?${signed}`,
        expires_in: 3600,
        upload_headers: { 'content-type': 'application/octet-stream' },
      }
    }
    const total = Math.ceil(size / this.partSize)
    return {
      method: 'multipart',
      part_size: this.partSize,
      total_parts: total,
      presigned_urls: Array.from({ length: total }, (_, index) => ({
        part_number: index + 1,
        presigned_url: `${base}/${index + 1}?${signed}`,
      })),
    }
  }

  #complete(dataset: StandInDataset, body: StandInRequest['body']): StandInAnswer {
    const parts = this.#parts.get(dataset.id) ?? new Map<number, Buffer>()
    const numbers = [...parts.keys()].toSorted((a, b) => a - b)
    const named = numbers.map((number) => ({ PartNumber: number, ETag: `etag-${number}` }))
    const isMultipart = this.partSize !== undefined
    if (isMultipart && JSON.stringify(body['parts']) !== JSON.stringify(named)) {
      return refusal(400, 'The parts are not those that were uploaded.')
    }
    this.contents.set(
      dataset.id,
      Buffer.concat(numbers.map((number) => parts.get(number) ?? Buffer.alloc(0))),
    )
    dataset.status = 'processing'
    return { body: dataset }
  }

  #read(
    dataset: StandInDataset,
    action: string | undefined,
    query: URLSearchParams,
  ): StandInAnswer | undefined {
    if (action === undefined) return { body: dataset }
    if (action === 'logs') return logPage(this.logs, query)
    if (action !== 'download') return undefined
    return {
      body: {
        presigned_url: `${this.#url()}/storage/${dataset.id}/file?X-Signature=planted-signature`,
        expires_in: 600,
        file_name: `${dataset.file_name}.${dataset.file_format}`,
      },
    }
  }

  #new(file: string, format: string, size: number): StandInDataset {
    const id = `dataset-${crypto.randomUUID()}`
    const dataset = {
      id,
      file_name: file,
      file_size: size,
      status: 'pending',
      file_format: format,
      created_at: '2026-11-21T10:00:00Z',
      updated_at: '2026-11-21T10:00:00Z',
      platform_url: `${this.#url()}/datasets/${id}`,
    }
    this.list.push(dataset)
    return dataset
  }
}
