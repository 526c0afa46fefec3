import type { AnswerPart, FinishPart, GenerateResult, StreamPart } from './language-model-types.ts'

type MetadataPart = Extract<StreamPart, { type: 'response-metadata' }>
type Block = Extract<AnswerPart, { type: 'text' | 'reasoning' }>

/** Puts the parts of a streamed answer together: the SDK has only the other direction. */
export class AnswerFold {
  readonly content: AnswerPart[] = []
  readonly #open = new Map<string, Block>()
  #warnings: GenerateResult['warnings'] = []
  #metadata: Omit<MetadataPart, 'type'> = {}
  #finish: FinishPart | undefined

  /** Ends of blocks and pieces of tool calls add nothing to what the other parts say. */
  add(part: StreamPart): void {
    if (part.type === 'stream-start') this.#warnings = part.warnings
    else if (part.type === 'response-metadata') this.#addMetadata(part)
    else if (part.type === 'text-start') this.#start(part.id, { type: 'text', text: '' })
    else if (part.type === 'reasoning-start') this.#start(part.id, { type: 'reasoning', text: '' })
    else if (part.type === 'text-delta' || part.type === 'reasoning-delta') this.#addDelta(part)
    else if (part.type === 'tool-call') this.content.push(part)
    else if (part.type === 'finish') this.#finish = part
  }

  /** The answer as a model gives it that does not stream. */
  result(): GenerateResult {
    if (this.#finish === undefined) throw new TypeError('The answer has no finish part.')
    const { finishReason, usage, providerMetadata } = this.#finish
    return {
      content: this.content,
      finishReason,
      usage,
      warnings: this.#warnings,
      response: this.#metadata,
      ...(providerMetadata ? { providerMetadata } : {}),
    }
  }

  #start(id: string, block: Block): void {
    // Ids are used again for a later block; the deltas belong to the one that began last.
    this.#open.set(id, block)
    this.content.push(block)
  }

  #addDelta({ id, delta }: { id: string; delta: string }): void {
    const block = this.#open.get(id)
    if (block) block.text += delta
  }

  #addMetadata({ type: _type, ...metadata }: MetadataPart): void {
    this.#metadata = { ...this.#metadata, ...metadata }
  }
}
