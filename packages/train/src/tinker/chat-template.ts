import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'

import * as tokenizers from '@huggingface/tokenizers'
import { errorMessage, OsmosisError } from '@osmosis/core'
import { parseJson } from '@osmosis/core/http'
import type { ChatMessage } from '@osmosis/core/policy'

import { PythonTemplate } from './python-template.ts'

/** What is used of a tokenizer; the types of the package cannot be resolved by all compilers. */
interface TextTokenizer {
  encode(text: string, options: { add_special_tokens: boolean }): { ids: number[] }
  decode(
    ids: number[],
    options: { skip_special_tokens: boolean; clean_up_tokenization_spaces: boolean },
  ): string
  token_to_id(token: string): number | undefined
}

const { Tokenizer } = tokenizers as unknown as {
  Tokenizer: new (tokenizer: object, config: object) => TextTokenizer
}

/** Conversations as token ids, by the tokenizer and the chat template in the folder of a model. */
export class ChatTemplate {
  /** The text of the template, after one that describes tools where it knows none. */
  readonly source: string
  /** Size and digest of the files that it is made of. */
  readonly files: string
  /** Text of the token that ends a turn. */
  readonly endText: string
  /** Ids of the tokens that end an answer. */
  readonly endIds: ReadonlySet<number>
  readonly #tokenizer: TextTokenizer
  readonly #template: PythonTemplate
  readonly #describesTools: boolean
  readonly #special: Readonly<Record<string, string>>
  /** Places of messages that the template leaves out, by the form of the conversation. */
  readonly #lost = new Map<string, readonly number[]>()

  /** @throws OsmosisError with code `invalid_config` when a file is missing or cannot be read */
  constructor(folder: string) {
    const config = readJson(folder, 'tokenizer_config.json')
    this.#tokenizer = new Tokenizer(readJson(folder, 'tokenizer.json'), config)
    const file = path.join(folder, 'chat_template.jinja')
    const inConfig = config['chat_template']
    const own = existsSync(file)
      ? readFileSync(file, 'utf8')
      : typeof inConfig === 'string'
        ? inConfig
        : ''
    if (own === '') throw invalid(`${folder} has no chat template: a base model cannot chat`)
    this.files = filesOf(folder)
    this.#special = Object.fromEntries(
      ['bos_token', 'eos_token', 'pad_token', 'unk_token'].flatMap((name) => {
        const value = config[name] as string | { content?: string } | null | undefined
        const text = typeof value === 'string' ? value : value?.content
        return text === undefined ? [] : [[name, text]]
      }),
    )
    this.#describesTools = !own.includes('tools')
    this.source = this.#describesTools ? describing(own, this.#special) : own
    this.#template = new PythonTemplate(this.source)
    this.endText = this.#special['eos_token'] ?? ''
    const ends = [this.#tokenizer.token_to_id(this.endText), ...endsOf(folder)]
    this.endIds = new Set(ends.filter((id) => id !== undefined))
    if (this.endIds.size === 0) throw invalid(`${folder} names no token that ends an answer`)
  }

  encode(text: string): number[] {
    return this.#tokenizer.encode(text, { add_special_tokens: false }).ids
  }

  /** With special tokens, which tool calls are made of. */
  decode(ids: readonly number[]): string {
    // The tokenizer refuses an empty list.
    if (ids.length === 0) return ''
    const options = { skip_special_tokens: false, clean_up_tokenization_spaces: false }
    return this.#tokenizer.decode([...ids], options)
  }

  /**
   * The conversation as text.
   *
   * @param continues - whether the policy is to answer
   * @throws OsmosisError with code `invalid_request` for what the template refuses
   */
  text(messages: readonly ChatMessage[], tools: readonly unknown[], continues: boolean): string {
    try {
      const text = this.#template.render({
        messages: messages.map(toTemplate),
        ...(tools.length === 0 ? {} : { tools: [...tools] }),
        add_generation_prompt: continues,
        ...this.#special,
      })
      if (
        this.#describesTools &&
        tools.length > 0 &&
        !text.includes('You can call these functions:')
      )
        throw new Error('it leaves out the message that describes the tools')
      return text
    } catch (cause) {
      const message = `The chat template of the model refuses the messages: ${errorMessage(cause)}`
      throw new OsmosisError('invalid_request', message, { cause })
    }
  }

  /** The messages with roles that the model was trained with: `developer` is another name of `system`. */
  withKnownRoles(messages: readonly ChatMessage[]): readonly ChatMessage[] {
    if (this.source.includes('developer')) return messages
    return messages.map((message) =>
      message.role === 'developer' ? { ...message, role: 'system' } : message,
    )
  }

  /**
   * A template leaves out what it does not know without a word.
   *
   * @param from - the first message that was not answered before
   * @throws OsmosisError with code `invalid_request` for a message whose text would not reach the model
   */
  assertReached(messages: readonly ChatMessage[], tools: readonly unknown[], from = 0): void {
    const at = this.#lostIn(messages, tools).find((place) => place >= from)
    if (at === undefined) return
    throw new OsmosisError(
      'invalid_request',
      `The chat template of the model leaves out the text of messages[${at}], whose role is ${JSON.stringify(messages[at]?.role)}: the model would not see it. Give it a role that the template knows.`,
    )
  }

  #lostIn(messages: readonly ChatMessage[], tools: readonly unknown[]): readonly number[] {
    const form = messages.map(({ content, ...message }) => [
      message.role,
      hasText(content),
      (message.tool_calls ?? []).length > 0,
      Object.keys(message).toSorted(),
    ])
    const key = JSON.stringify([form, tools.length > 0])
    const known = this.#lost.get(key)
    if (known !== undefined) return known
    const lost = this.#leftOut(messages, tools)
    const [oldest] = this.#lost.keys()
    if (this.#lost.size >= mostForms && oldest !== undefined) this.#lost.delete(oldest)
    this.#lost.set(key, lost)
    return lost
  }

  #leftOut(messages: readonly ChatMessage[], tools: readonly unknown[]): readonly number[] {
    const marked = messages.map((message, at) =>
      hasText(message.content) ? { ...message, content: markOf(at) } : message,
    )
    try {
      const text = this.text(marked, tools, true)
      return marked.flatMap(({ content }, at) =>
        content === markOf(at) && !text.includes(content) ? [at] : [],
      )
    } catch {
      // A template that looks into contents and wants others, or one that refuses these messages anyway.
      return []
    }
  }

  /**
   * The ids of a prompt that continues a conversation: those that were recorded up to the end of an answer, then the
   * rendering of what follows. Undefined where the template renders earlier messages differently now, for
   * example because it drops their thinking.
   *
   * @param known - the conversation up to the answer, and its ids
   */
  continued(
    known: { readonly messages: readonly ChatMessage[]; readonly ids: readonly number[] },
    messages: readonly ChatMessage[],
    tools: readonly unknown[],
  ): number[] | undefined {
    const before = this.text(known.messages, tools, false)
    const whole = this.text(messages, tools, true)
    const end = before.lastIndexOf(this.endText)
    if (!whole.startsWith(before) || end === -1) return undefined
    const isClosed = this.endIds.has(known.ids.at(-1) ?? -1)
    const more = whole.slice(isClosed ? end + this.endText.length : end)
    return [...known.ids, ...this.encode(more)]
  }
}

/** Forms of conversations that are remembered. */
const mostForms = 10_000

/** A text that no template changes, and no message has. */
function markOf(at: number): string {
  return `text-of-message-${at}-here`
}

function hasText(content: ChatMessage['content']): boolean {
  const parts = Array.isArray(content) ? content.map(({ text }) => text ?? '') : [content ?? '']
  return parts.join('').trim() !== ''
}

/** A template that lacks tools, after the one with which the learner on this machine describes them. */
function describing(own: string, special: Readonly<Record<string, string>>): string {
  const file = path.resolve(import.meta.dirname, '../../learner/described_tools.jinja')
  let first = 'user'
  try {
    const messages = ['system', 'user'].map((role) => ({ role, content: `content of ${role}` }))
    const text = new PythonTemplate(own).render({
      messages,
      add_generation_prompt: true,
      ...special,
    })
    // Some templates refuse system messages, and some leave them out.
    if (text.includes('content of system')) first = 'system'
  } catch {
    // The description is in the first message of the user.
  }
  return readFileSync(file, 'utf8').replaceAll('FIRST', first) + own
}

/** Templates take the arguments of tool calls as objects, and no content that is null. */
function toTemplate({ content, tool_calls: calls, ...message }: ChatMessage): unknown {
  return {
    ...message,
    content: typeof content === 'string' ? content : textOf(content),
    // Null where a client writes all fields of a message.
    ...(calls == null
      ? {}
      : {
          tool_calls: calls.map(({ function: called, ...call }) => {
            const parsed = parseJson(called.arguments)
            const args = parsed === undefined ? called.arguments : parsed
            return { ...call, function: { ...called, arguments: args } }
          }),
        }),
  }
}

function textOf(content: ChatMessage['content']): string {
  if (!Array.isArray(content)) return content ?? ''
  const other = content.find(({ type }) => type !== 'text')
  if (other !== undefined) {
    throw new OsmosisError(
      'invalid_request',
      `A text model takes no content of type ${other.type}.`,
    )
  }
  return content.map(({ text }) => text ?? '').join('')
}

const fileNames = [
  'chat_template.jinja',
  'generation_config.json',
  'tokenizer.json',
  'tokenizer_config.json',
]

function filesOf(folder: string): string {
  const digest = createHash('sha256')
  let bytes = 0
  for (const name of fileNames) {
    if (!existsSync(path.join(folder, name))) continue
    const content = readFileSync(path.join(folder, name))
    digest.update(`${name}\0${content.length}\0`).update(content)
    bytes += content.length
  }
  return `tokenizer of ${bytes} bytes, sha256 ${digest.digest('hex')}`
}

function endsOf(folder: string): number[] {
  if (!existsSync(path.join(folder, 'generation_config.json'))) return []
  const { eos_token_id: ends } = readJson(folder, 'generation_config.json')
  return [ends].flat().filter((id) => typeof id === 'number')
}

function readJson(folder: string, name: string): Record<string, unknown> {
  try {
    return JSON.parse(readFileSync(path.join(folder, name), 'utf8')) as Record<string, unknown>
  } catch (cause) {
    throw invalid(`the folder of the tokenizer needs ${name}: ${errorMessage(cause)}`, cause)
  }
}

function invalid(problem: string, cause?: unknown): OsmosisError {
  return new OsmosisError('invalid_config', `Cannot render chats: ${problem}.`, { cause })
}
