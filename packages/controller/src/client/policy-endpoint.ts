import { openHost, ownKey } from '../http/rollout-host.ts'
import type { PolicyModel } from '../policy/policy-model.ts'
import type { TokenUsage } from '../policy/usage.ts'
import { RolloutSessions } from '../session/rollout-sessions.ts'
import { policyRoute } from '../workflow/policy-route.ts'
import type { RolloutOutcome, WorkflowState } from '../workflow/rollout-outcome.ts'

/** Options of {@link createPolicyEndpoint}. */
export interface PolicyEndpointOptions {
  /** Answers the model calls of all rollouts; the caller owns it. */
  readonly policy: PolicyModel
  /** Address to listen on, which rollout servers reach. Default: `127.0.0.1`. */
  readonly host?: string
  /** Default: 0, any free port. */
  readonly port?: number
  /** Bearer the model calls must carry. Default: random. */
  readonly policyToken?: string
}

/** The right of one rollout to call the policy. */
export interface PolicyAccess {
  /** For `LeasedOrder.rolloutId`. */
  readonly rolloutId: string
  /** For `LeasedOrder.chatCompletionsUrl`. */
  readonly chatCompletionsUrl: string
  /** For `LeasedOrder.llmApiKey`. */
  readonly llmApiKey: string
  /** Accepted model calls so far. */
  readonly policyCalls: number
  /** The usage that their answers reported. */
  readonly usage: TokenUsage
  /** Refuses model calls from now on (410) and aborts those in progress. Safe to call again. */
  end(): void
}

/** An address where rollouts call a policy. */
export interface PolicyEndpoint extends AsyncDisposable {
  /** Base URL, without a slash at the end. */
  readonly url: string
  /**
   * Accepts model calls of a rollout until it ends; those of others are refused (404).
   *
   * @throws OsmosisError with code `invalid_request` for an id that is in use or was recently
   */
  admit(rolloutId: string): PolicyAccess
  /** Aborts calls in progress and stops listening. Safe to call again. */
  close(): Promise<void>
}

/**
 * Serves a policy to rollouts that a `RolloutClient` sends, as `createController` does, without callbacks. The
 * caller closes it.
 *
 * @throws OsmosisError with code `invalid_config` for a token that no header can carry and an address that cannot be
 * opened, `port_in_use` when the address is taken
 */
export async function createPolicyEndpoint(
  options: PolicyEndpointOptions,
): Promise<PolicyEndpoint> {
  const token = ownKey('policyToken', options.policyToken)
  const sessions = new RolloutSessions<RolloutOutcome, WorkflowState>({})
  const routes = policyRoute(sessions, options.policy, token)
  const { host, port } = options
  const opened = await openHost(routes, { name: 'policy endpoint', host, port })
  const admitted = new Set<PolicyAccess>()
  const close = async (): Promise<void> => {
    for (const access of admitted) access.end()
    await opened.close()
  }
  return {
    url: opened.url,
    admit(rolloutId) {
      const session = sessions.register(rolloutId, {
        graded: false,
        completion: null,
        completedAt: null,
      })
      const access: PolicyAccess = {
        rolloutId,
        chatCompletionsUrl: `${opened.url}/v1/rollouts/${encodeURIComponent(rolloutId)}`,
        llmApiKey: token,
        get policyCalls() {
          return session.usage.calls
        },
        get usage() {
          return session.usage.tokens
        },
        end() {
          if (admitted.delete(access)) sessions.retire(session)
        },
      }
      admitted.add(access)
      return access
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}
