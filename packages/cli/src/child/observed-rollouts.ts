import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { ClientRequest, IncomingMessage } from 'node:http'

import { getRolloutContext, type GraderContext } from '@osmosis/core'
import { isGraderClass } from '@osmosis/core/workflow'
import { codeLine, type Entrypoint } from '@osmosis/server/execution'

// What `osmosis validate` sees of user code that the protocol of a rollout does not say.

/** What user code of the rollouts did; plain data, because its process sends it. */
export interface ObservedRollouts {
  /** Requests of workflows to the API of a model that was not the policy. The first to each address. */
  readonly otherModels: readonly OtherModelCall[]
  /** Fields of `ctx.metadata` that the grader read and the row does not have. The first read of each. */
  readonly missingFields: readonly MissingField[]
  /** Where the grader read the label of a row that has none; undefined when it did not. */
  readonly missingLabel: { readonly place: string | undefined } | undefined
  /** The same of the metadata of a row that has none. */
  readonly missingMetadata: { readonly place: string | undefined } | undefined
}

interface OtherModelCall {
  /** Without query. */
  readonly url: string
  /** `main.ts:12`; undefined when the stack of the request does not show code of the user. */
  readonly place: string | undefined
}

interface MissingField {
  readonly name: string
  /** The fields that are there instead. */
  readonly known: readonly string[]
  readonly place: string | undefined
}

/** Observes the rollouts of this process. */
export interface RolloutObserver {
  /** The entrypoint with a grader that is observed. */
  watched(entrypoint: Entrypoint): Entrypoint
  /** Ends the observation. */
  end(): ObservedRollouts
}

export function observeRollouts(): RolloutObserver {
  const calls = observeModelCalls()
  const before = Error.stackTraceLimit
  Error.stackTraceLimit = deepestStack
  const missing = new Map<string, MissingField>()
  let missingLabel: ObservedRollouts['missingLabel']
  let missingMetadata: ObservedRollouts['missingMetadata']
  const notes: GraderNotes = {
    onField: (name, known) => {
      if (!missing.has(name)) missing.set(name, { name, known, place: placeHere() })
    },
    onLabel: () => {
      missingLabel ??= { place: placeHere() }
    },
    onMetadata: () => {
      missingMetadata ??= { place: placeHere() }
    },
  }
  return {
    watched: (entrypoint) => withWatchedGrader(entrypoint, notes),
    end: () => {
      Error.stackTraceLimit = before
      const missingFields = [...missing.values()]
      return { otherModels: calls.end(), missingFields, missingLabel, missingMetadata }
    },
  }
}

/**
 * The ends of the addresses at which models are asked: chat completions, Responses, Messages, Gemini, Bedrock, Ollama and the
 * gateway of the AI SDK. Tools call other services, about which nothing is known.
 */
const modelPath =
  /\/(?:completions|responses|messages|language-model|api\/(?:chat|generate)|model\/[^/]+\/(?:invoke|converse)[\w-]*|models\/[^/]+:(?:generateContent|streamGenerateContent))$/

/** Of a request by which the SDK asks the policy. */
const policyHeader = 'x-rollout-id'

interface SeenRequest {
  readonly method: string | undefined
  readonly url: string
  readonly isOfPolicy: boolean
}

/**
 * Node.js reports the requests of `fetch` and of `node:http` on channels, in the async context of the code that makes them.
 * Processes that user code starts make theirs elsewhere.
 */
function observeModelCalls(): { end(): readonly OtherModelCall[] } {
  const seen = new Map<string, OtherModelCall>()
  const ownPorts = new Set<string>()
  const note = ({ method, url, isOfPolicy }: SeenRequest): void => {
    if (getRolloutContext() === undefined || isOfPolicy || method !== 'POST') return
    if (!URL.canParse(url)) return
    const { origin, pathname } = new URL(url)
    const address = origin + pathname
    if (!modelPath.test(pathname) || seen.has(address)) return
    seen.set(address, { url: address, place: placeHere() })
  }
  const listeners: readonly (readonly [string, (message: unknown) => void])[] = [
    ['undici:request:create', (message) => note(ofFetch(message as FetchMessage))],
    ['http.client.request.start', (message) => note(ofHttp(message as HttpMessage))],
    [
      // The policy behind a URL is served here, and asks it itself.
      'http.server.request.start',
      (message) => ownPorts.add(String((message as ServedMessage).request.socket.localPort)),
    ],
  ]
  for (const [channel, listener] of listeners) subscribe(channel, listener)
  return {
    end: () => {
      for (const [channel, listener] of listeners) unsubscribe(channel, listener)
      return [...seen.values()].filter(({ url }) => !isServedHere(new URL(url), ownPorts))
    },
  }
}

interface FetchMessage {
  readonly request: {
    readonly origin: string | URL
    readonly path: string
    readonly method: string
    /** One text or a list, by the version of undici. */
    readonly headers: unknown
  }
}

interface HttpMessage {
  readonly request: ClientRequest
}

interface ServedMessage {
  readonly request: IncomingMessage
}

function ofFetch({ request: { origin, path, method, headers } }: FetchMessage): SeenRequest {
  const isOfPolicy = String(headers).toLowerCase().includes(policyHeader)
  return { method, url: new URL(origin).origin + path, isOfPolicy }
}

function ofHttp({ request }: HttpMessage): SeenRequest {
  const { method, protocol, path } = request
  const url = `${protocol}//${String(request.getHeader('host'))}${path}`
  return { method, url, isOfPolicy: request.hasHeader(policyHeader) }
}

function isServedHere({ hostname, port }: URL, ownPorts: ReadonlySet<string>): boolean {
  return /^(?:127\.|localhost$|\[::1\]$)/.test(hostname) && ownPorts.has(port)
}

/** Frames of frameworks lie between an error or a request and the code of the user, which called the framework. */
const deepestStack = 60

function placeHere(): string | undefined {
  return codeLine(new Error('read'))
}

interface GraderNotes {
  readonly onField: (name: string, known: readonly string[]) => void
  readonly onLabel: () => void
  readonly onMetadata: () => void
}

/** Graders of groups get other contexts, and are not observed. */
function withWatchedGrader(entrypoint: Entrypoint, notes: GraderNotes): Entrypoint {
  const { grader } = entrypoint
  if (!isGraderClass(grader)) return entrypoint
  const watched = new Proxy(grader, {
    construct(target, args, newTarget) {
      const instance = Reflect.construct(target, args, newTarget) as InstanceType<typeof grader>
      const grade = instance.grade.bind(instance)
      instance.grade = async (ctx) => grade(watchedContext(ctx, notes))
      return instance
    },
  })
  return { ...entrypoint, grader: watched }
}

function watchedContext<C extends GraderContext>(ctx: C, notes: GraderNotes): C {
  const metadata = withReads(ctx.metadata, notes)
  return new Proxy(ctx, {
    get(target, key) {
      // Getters of the context use its private fields.
      const value: unknown = Reflect.get(target, key, target)
      if ((key === 'label' || key === 'requireLabel') && target.label === null) notes.onLabel()
      if (key === 'metadata' && metadata === null) notes.onMetadata()
      if (key === 'metadata') return metadata
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
}

/**
 * A copy of an object that notes which of its fields are read and missing. A Proxy in place of the prototype sees exactly these, and the
 * copy stays an object that can be cloned. Its values are those of the row: graders compare them, and their prototypes with them.
 */
function withReads(value: unknown, notes: GraderNotes): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Object.getPrototypeOf(value) !== Object.prototype) return value
  const known = Object.keys(value)
  const prototype = new Proxy(Object.prototype, {
    get(target, key, receiver) {
      if (typeof key === 'string' && !(key in target) && !namesOfProtocols.has(key)) {
        notes.onField(key, known)
      }
      return Reflect.get(target, key, receiver) as unknown
    },
  })
  return Object.setPrototypeOf({ ...value }, prototype) as unknown
}

/** What JavaScript, `console.log` and assertions read of any object. */
const namesOfProtocols = new Set(['then', 'toJSON', 'asymmetricMatch', 'nodeType', 'href'])
