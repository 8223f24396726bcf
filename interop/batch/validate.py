"""validate.py: the manifests of docs/batch against the schemas of the systems that take them: Kubernetes' own (kubernetes-validate),
the models of Argo Workflows (hera) and of AWS Batch (botocore). One that each has to refuse is refused."""
import copy
import json
import sys

import botocore.session
import botocore.validate
import hera.workflows.models as argo
import kubernetes_validate
import yaml


def kubernetes(job):
    kubernetes_validate.validate(job, kubernetes_validate.latest_version(), strict=True)


def workflow(w):
    argo.Workflow.model_validate(w)


def aws(request):
    shape = botocore.session.get_session().get_service_model("batch").operation_model("SubmitJob").input_shape
    report = botocore.validate.ParamValidator().validate(request, shape)
    if report.has_errors():
        raise ValueError(report.generate_report())


def refused(check, document, path, value):
    bad = copy.deepcopy(document)
    place = bad
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    try:
        check(bad)
    except Exception:
        return
    sys.exit(f"{path} may be {value!r}")


job = yaml.safe_load(open("docs/batch/kubernetes.yaml"))
kubernetes(job)
refused(kubernetes, job, ["spec", "completions"], "many")
refused(kubernetes, job, ["spec", "podFailurePolicy", "rules", 0, "onExit"], {})
w = yaml.safe_load(open("docs/batch/argo.yaml"))
workflow(w)
refused(workflow, w, ["spec", "templates", 0, "steps"], 7)
request = json.load(open("docs/batch/aws.json"))
aws(request)
refused(aws, request, ["arrayProperties", "size"], "many")
refused(aws, request, ["retryStrategy", "attempt"], 3)
