import type { LanguageModel } from 'ai'

/**
 * A language model in the form that the installed `ai` works with. Derived from it, because its
 * releases disagree about details of these types.
 */
export type RolloutLanguageModel = Extract<LanguageModel, { specificationVersion: 'v4' }>

/** What the SDK asks a model. */
export type CallOptions = Parameters<RolloutLanguageModel['doGenerate']>[0]

/** The messages of a call: `ModelMessage`s with every content as parts. */
export type CallPrompt = CallOptions['prompt']

export type GenerateResult = Awaited<ReturnType<RolloutLanguageModel['doGenerate']>>

export type StreamResult = Awaited<ReturnType<RolloutLanguageModel['doStream']>>

export type StreamPart = StreamResult['stream'] extends ReadableStream<infer Part> ? Part : never

/** One part of an answer: text, thinking, a tool call. */
export type AnswerPart = GenerateResult['content'][number]
