"""sas.py CONTAINER: a shared access signature that may read and list it, of the account of AZURE_STORAGE_CONNECTION_STRING."""
import datetime, os, sys

from azure.storage.blob import ContainerSasPermissions, generate_container_sas

fields = dict(f.split("=", 1) for f in os.environ["AZURE_STORAGE_CONNECTION_STRING"].split(";") if "=" in f)
now = datetime.datetime.now(datetime.timezone.utc)
print(generate_container_sas(fields["AccountName"], sys.argv[1], fields["AccountKey"], permission=ContainerSasPermissions(read=True, list=True),
                             expiry=now + datetime.timedelta(hours=1)))
