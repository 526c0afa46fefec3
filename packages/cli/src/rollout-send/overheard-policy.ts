import { overhear, type PolicyModel } from '@osmosis/controller'

type Message = Readonly<Record<string, unknown>>

/** Hears what agents and the policy say to one another, as it is said. */
export interface PolicyListener {
  /** The whole conversation that a model call carries. */
  onCall(sampleId: string, messages: readonly Message[]): void
  /** The answer to it; `messages` ends with that. */
  onAnswer(sampleId: string, messages: readonly Message[]): void
  /** An answer that is none. */
  onRefusal(status: number, text: string): void
}

/** Lets a listener hear the model calls of a policy. Answers reach their callers byte for byte. */
export function overheard(policy: PolicyModel, listener: PolicyListener): PolicyModel {
  return overhear(policy, ({ sampleId, body }) => {
    const asked: unknown = body['messages']
    const messages = Array.isArray(asked) ? (asked as Message[]) : []
    listener.onCall(sampleId, messages)
    return {
      onAnswer: ({ choices }) =>
        listener.onAnswer(sampleId, [...messages, { ...choices[0]?.message }]),
      onBroken: (reason) => listener.onRefusal(200, reason),
      onRefusal: (status, text) => listener.onRefusal(status, text),
    }
  })
}
