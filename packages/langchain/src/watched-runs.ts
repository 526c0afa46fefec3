import { BaseCallbackHandler } from '@langchain/core/callbacks/base'
import { registerConfigureHook, setContextVariable } from '@langchain/core/context'
import { AsyncLocalStorageProviderSingleton } from '@langchain/core/singletons'
import { causes, type RolloutContext } from '@osmosis/core'
import { sharedByCopies } from '@osmosis/core/workflow'

/** A run of LangChain in progress: of a graph, a node, a tool, a parser or a model. */
interface WatchedRun {
  readonly parentId: string | undefined
  readonly name: string | undefined
  readonly isGraph: boolean
  /** Whether the policy was called in it. */
  isOfPolicy: boolean
}

/** Where an error came from. */
interface ErrorOrigin {
  /** The name of the innermost run that it ended. */
  readonly runName: string | undefined
  /** Whether the policy was called in that run. */
  readonly isOfStep: boolean
  /** Whether the innermost graph that it ended is one in which the policy was called. */
  readonly isOfPolicy: boolean
}

/**
 * Hears of the runs of LangChain in a rollout, to know in which of them the policy was called: an error that says that
 * a graph or an agent has reached its limit says nothing of the models in it.
 */
class WatchedRuns extends BaseCallbackHandler {
  readonly name = 'osmosis:watched-runs'
  // Otherwise the rollout may end before an error is heard of.
  override awaitHandlers = true
  readonly #runs = new Map<string, WatchedRun>()
  readonly #origins = new WeakMap<Error, ErrorOrigin>()

  override handleChainStart(...[chain, , id, parentId, , , , name]: ChainStart): void {
    const isGraph = chain.id.includes('langgraph')
    this.#runs.set(id, { parentId, name, isGraph, isOfPolicy: false })
  }

  override handleChatModelStart(_: unknown, __: unknown, id: string, parentId?: string): void {
    this.#add(id, parentId)
  }

  override handleToolStart(_: unknown, __: unknown, id: string, parentId?: string): void {
    this.#add(id, parentId)
  }

  override handleChainEnd(_: unknown, id: string): void {
    this.#runs.delete(id)
  }

  override handleLLMEnd(_: unknown, id: string): void {
    this.#runs.delete(id)
  }

  override handleLLMError(_: unknown, id: string): void {
    this.#runs.delete(id)
  }

  override handleToolEnd(_: unknown, id: string): void {
    this.#runs.delete(id)
  }

  override handleToolError(_: unknown, id: string): void {
    this.#runs.delete(id)
  }

  override handleChainError(error: unknown, id: string): void {
    const run = this.#runs.get(id)
    const origin = {
      runName: run?.name,
      isOfStep: run?.isOfPolicy === true,
      isOfPolicy: this.#graphOf(run)?.isOfPolicy === true,
    }
    // Middleware puts errors into others. The innermost run comes first.
    for (const cause of causes(error)) {
      if (this.#origins.has(cause)) break
      this.#origins.set(cause, origin)
    }
    this.#runs.delete(id)
  }

  /** The policy answers in this run, and so in all runs around it. */
  note(id: string): void {
    for (let run = this.#runs.get(id); run; run = this.#parentOf(run)) run.isOfPolicy = true
  }

  originOf(error: Error): ErrorOrigin | undefined {
    return this.#origins.get(error)
  }

  #add(id: string, parentId: string | undefined): void {
    this.#runs.set(id, { parentId, name: undefined, isGraph: false, isOfPolicy: false })
  }

  #graphOf(run: WatchedRun | undefined): WatchedRun | undefined {
    let at = run
    while (at !== undefined && !at.isGraph) at = this.#parentOf(at)
    return at
  }

  #parentOf({ parentId }: WatchedRun): WatchedRun | undefined {
    return parentId === undefined ? undefined : this.#runs.get(parentId)
  }
}

type ChainStart = Parameters<NonNullable<BaseCallbackHandler['handleChainStart']>>

const rollouts = sharedByCopies('langchain.runs', () => new WeakMap<RolloutContext, WatchedRuns>())

const variable = 'osmosis:watched-runs'

/** Runs the code of a rollout so that its runs of LangChain are heard of. */
export function withWatchedRuns<T>(rollout: RolloutContext, start: () => T): T {
  const runs = rollouts.get(rollout) ?? new WatchedRuns()
  rollouts.set(rollout, runs)
  const storage = AsyncLocalStorageProviderSingleton.getInstance() as {
    run(store: object, callback: () => T): T
  }
  return storage.run({}, () => {
    setContextVariable(variable, runs)
    registerConfigureHook({ contextVar: variable, inheritable: true })
    return start()
  })
}

/** Notes that the policy answers in a run of LangChain. */
export function notePolicyRun(rollout: RolloutContext, runId: string | undefined): void {
  if (runId !== undefined) rollouts.get(rollout)?.note(runId)
}

/** Where an error of LangChain or LangGraph came from; undefined when it ended no run of theirs. */
export function originOf(error: Error, rollout: RolloutContext): ErrorOrigin | undefined {
  return rollouts.get(rollout)?.originOf(error)
}
